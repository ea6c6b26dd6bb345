-- Lmod. The prefix is found from this file's own path, PREFIX/share/forebay/modulefile/forebay/VERSION.lua.
local prefix = myFileName():match("^(.*)/share/forebay/modulefile/[^/]+/[^/]+$")

whatis("Name: Forebay")
whatis("Description: the I/O tier of a supercomputer job")
help("forebay doctor says what this machine lacks; forebay --help lists the commands.")
conflict("forebay")
prepend_path("PATH", pathJoin(prefix, "bin"))
-- man(1) finds pages beside PATH by itself, and where MANPATH is set looks nowhere else.
if os.getenv("MANPATH") then prepend_path("MANPATH", pathJoin(prefix, "share/man")) end
prepend_path("CPATH", pathJoin(prefix, "include"))
setenv("FOREBAY_ROOT", prefix)
