-- Lmod. The prefix is found from this file's own path, PREFIX/share/forebay/modulefile/forebay/VERSION.lua.
local prefix = myFileName():match("^(.*)/share/forebay/modulefile/[^/]+/[^/]+$")

whatis("Name: Forebay")
whatis("Description: the I/O tier of a supercomputer job")
help("forebay doctor says what this machine lacks; forebay --help lists the commands.")
conflict("forebay")
prepend_path("PATH", pathJoin(prefix, "bin"))
prepend_path("MANPATH", pathJoin(prefix, "share/man"))
prepend_path("CPATH", pathJoin(prefix, "include"))
setenv("FOREBAY_ROOT", prefix)
