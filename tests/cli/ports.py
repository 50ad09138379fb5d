# SPDX-License-Identifier: MIT
"""Ports of this machine for servers that tests start and that have to be told one."""

import socket


def claim():
    """A port for a server that will listen there with SO_REUSEPORT, and the socket that keeps it:
    close that when the server has ended. A port that was only free when it was asked for may be
    another test's by the time that the server takes it."""
    keeper = socket.socket()
    keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    keeper.bind(("127.0.0.1", 0))
    return keeper, keeper.getsockname()[1]
