"""``tenure run`` and ``tenure lock``: a command that runs only while its supervisor is in office.

Four kinds of process take part. The *supervisor* stands for election. The *guardian* kills the command's group when the
supervisor cannot. The *starter* waits until the guardian knows its group, and then becomes the *command*.
"""
