"""Steady load on a whole gateway for hours, to show that memory, connections, files and the database stay flat.

`load` sends changes of tables of constant size and remembers what must land; `consumer` takes landing files away as
Fabric does; `measures` samples the processes, the database and the folders; `growth` compares the halves of the run;
`report` writes the page. `make soak HOURS=n` runs it, and exits with 1 for growth, a rejected change or a wrong row.
"""
