"""How many pages of a file are in the page cache once it has been opened."""
import ctypes, mmap, os, sys

reader = os.open(sys.argv[1], os.O_RDONLY)
size = os.fstat(reader).st_size
mapping = mmap.mmap(reader, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
start = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
pages = (ctypes.c_ubyte * ((size + mmap.PAGESIZE - 1) // mmap.PAGESIZE))()
if ctypes.CDLL(None, use_errno=True).mincore(ctypes.c_void_p(start), ctypes.c_size_t(size), pages):
    sys.exit(os.strerror(ctypes.get_errno()))
print(sum(page & 1 for page in pages))
