# SPDX-License-Identifier: MIT
# Completion for fish. Verbs and options are read from the command's own help.
function __quern_verbs
    quern --help | sed -n 's/^  \([a-z][a-z]*\)  *\(.*\)/\1\t\2/p'
    printf 'help\tshow the options of a verb\n'
end
function __quern_options
    set -l words (commandline -opc)
    test (count $words) -gt 1; and quern help $words[2] 2>/dev/null | sed -n 's/^  \(--[a-z0-9-]*\)[^ ]*\( [^ ]*\)\{0,1\}  *\(.*\)/\1\t\3/p'
end
function __quern_after_target
    set -l words (commandline -opc)
    test "$words[-1]" = --target
end
# Each behind what stands before the last comma of the word, which may be a list.
function __quern_targets
    set -l before (string replace -r '[^,]*$' '' -- (commandline -ct))
    for name in (quern targets 2>/dev/null | sed -n '2,$s/ .*//p')
        echo $before$name
    end
end
function __quern_actions
    set -l words (commandline -opc)
    quern help $words[2] 2>/dev/null | sed -n '/^Usage:/{h;s/^Usage: quern [a-z]* \([a-z|]*\).*/\1/p;g;s/.*, or \([a-z]*\) .*/\1/p;}' | tr '|' '\n'
end
function __quern_before_action
    set -l words (commandline -opc)
    test (count $words) -eq 2; and contains -- $words[2] cache bundle
end
complete -c quern -n __quern_before_action -f -a '(__quern_actions)'
complete -c quern -n 'test (count (commandline -opc)) -eq 1' -f -a '(__quern_verbs)'
complete -c quern -n 'string match -q -- "-*" (commandline -ct)' -f -a '(__quern_options)'
complete -c quern -n __quern_after_target -f -a '(__quern_targets)'
