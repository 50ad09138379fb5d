# SPDX-License-Identifier: MIT
# Completion for bash. Verbs and options are read from the command's own help.
_quern() {
    local word=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]}
    if ((COMP_CWORD == 1)); then
        COMPREPLY=($(compgen -W "$(quern --help | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p') help" -- "$word"))
    elif [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$(quern help "$verb" 2>/dev/null | sed -n 's/^  \(--[a-z0-9-]*\).*/\1/p')" -- "$word"))
    elif [[ ${COMP_WORDS[COMP_CWORD-1]} == --target ]]; then
        # a list: what stands before the last comma is kept
        local before=${word%"${word##*,}"}
        COMPREPLY=($(compgen -P "$before" -W "$(quern targets 2>/dev/null | sed -n '2,$s/ .*//p')" -- "${word##*,}"))
    elif ((COMP_CWORD == 2)) && [[ $verb == cache || $verb == bundle ]]; then
        COMPREPLY=($(compgen -W "$(quern help "$verb" 2>/dev/null | sed -n '/^Usage:/{h;s/^Usage: quern [a-z]* \([a-z|]*\).*/\1/p;g;s/.*, or \([a-z]*\) .*/\1/p;}' | tr '|' ' ')" -- "$word"))
    else
        COMPREPLY=($(compgen -f -- "$word"))
    fi
}
complete -o filenames -F _quern quern
