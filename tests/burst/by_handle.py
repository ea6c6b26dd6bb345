"""`of PATH` prints the handle of a file (`name_to_handle_at`); `open DIR HANDLE` opens it on the mount of a directory, and prints what is in
it, or which error it is."""
import ctypes, errno, os, sys


class Handle(ctypes.Structure):
    _fields_ = [("handle_bytes", ctypes.c_uint), ("handle_type", ctypes.c_int), ("bytes", ctypes.c_ubyte * 128)]


AT_FDCWD = -100
libc = ctypes.CDLL(None, use_errno=True)
if sys.argv[1] == "of":
    handle, mount = Handle(128), ctypes.c_int()
    if libc.name_to_handle_at(AT_FDCWD, os.fsencode(sys.argv[2]), ctypes.byref(handle), ctypes.byref(mount), 0):
        sys.exit(os.strerror(ctypes.get_errno()))
    print(bytes(handle).hex())
else:
    handle = Handle.from_buffer_copy(bytes.fromhex(sys.argv[3]))
    mount = os.open(sys.argv[2], os.O_RDONLY)
    opened = libc.open_by_handle_at(mount, ctypes.byref(handle), os.O_RDONLY)
    if opened < 0:
        print(errno.errorcode[ctypes.get_errno()])
    elif os.path.isdir(f"/proc/self/fd/{opened}"):
        print("\n".join(os.listdir(opened)))
    else:
        print(os.read(opened, 100).decode().rstrip())
