"""What sinks in SQL servers have in common, whichever the server, and whether its driver blocks or awaits.

``talk``       what is said to a server, as generators: no IO, so one text serves blocking and awaiting drivers
``dialect``    what a kind of server must be able to say
``on_loop``    a sink over a driver that awaits; ``on_thread``: over one that blocks
"""
