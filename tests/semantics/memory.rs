//! Memory maps of every kind, which is how programs are run and libraries loaded.

use forebay_tests::program::python;
use forebay_tests::{on_both, require, tree};

const SIGBUS: i32 = 7;

on_both!(maps_show_the_file, [Command("python3")], |site| {
    let code = "
import mmap, sys
source, view = (open(path, 'rb') for path in sys.argv[1:])
expected = source.read()
for flags in mmap.MAP_SHARED, mmap.MAP_PRIVATE, mmap.MAP_PRIVATE | mmap.MAP_POPULATE:
    with mmap.mmap(view.fileno(), 0, flags=flags, prot=mmap.PROT_READ) as shown:
        assert shown[:] == expected, flags
with mmap.mmap(view.fileno(), 8192, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ, offset=1048576) as shown:
    assert shown[:] == expected[1048576:1048576 + 8192]
";
    let name = "plain/3145745";
    let _ = python(code, &[&site.source(name), &site.view(name)]).good();
});

on_both!(private_maps_can_be_written_and_stay_private, [Command("python3")], |site| {
    let code = "
import mmap, sys
with open(sys.argv[1], 'rb') as view:
    with mmap.mmap(view.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE) as shown:
        before = shown[4000:4200]
        shown[4000:4200] = bytes(200)
        assert shown[4000:4200] == bytes(200)
    view.seek(4000)
    assert view.read(200) == before
";
    let _ = python(code, &[&site.view("plain/1048577")]).good();
});

on_both!(shared_maps_cannot_be_written, [Command("python3")], |site| {
    let code = "
import errno, mmap, os, sys
view = os.open(sys.argv[1], os.O_RDONLY)
try:
    mmap.mmap(view, 0, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ | mmap.PROT_WRITE)
except PermissionError:
    sys.exit(0)
sys.exit('a shared map of a read-only file was made writable')
";
    let _ = python(code, &[&site.view("plain/4097")]).good();
});

on_both!(the_last_page_ends_in_zeros, [Command("python3")], |site| {
    let code = "
import ctypes, mmap, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
with open(sys.argv[1], 'rb') as view:
    at = libc.mmap(None, 8192, mmap.PROT_READ, mmap.MAP_SHARED, view.fileno(), 0)
    assert ctypes.string_at(at + 4097, 4095) == bytes(4095)
";
    let _ = python(code, &[&site.view("plain/4097")]).good();
});

on_both!(a_touch_past_the_end_is_a_bus_error, [Command("python3")], |site| {
    let code = "
import ctypes, mmap, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
with open(sys.argv[1], 'rb') as view:
    at = libc.mmap(None, 16384, mmap.PROT_READ, mmap.MAP_SHARED, view.fileno(), 0)
    ctypes.string_at(at + 8191, 1)
    print('within', flush=True)
    ctypes.string_at(at + 8192, 1)
";
    for path in [site.source("plain/4097"), site.view("plain/4097")] {
        let ended = python(code, &[&path]);
        assert_eq!(ended.signal(), Some(SIGBUS), "{}: {}", path.display(), ended.stderr);
        assert_eq!(ended.text(), "within\n", "{}: the last page itself can be read", path.display());
    }
});

/// A program keeps its memory whatever daemon and kernel have dropped: what it has mapped is read again.
#[test]
fn maps_outlive_what_the_node_keeps() {
    require!(Fuse, Root, Command("python3"));
    // The others are more than the budget, so that the daemon has to ask again for what the kernel has dropped.
    let site = forebay_tests::Site::with_options(1, &["--budget", "64MiB"], |source| {
        (0..5).for_each(|index| tree::write(&source.join(format!("other{index}")), &vec![index; 16 << 20]));
    });
    let code = "
import mmap, os, sys
with open(sys.argv[1], 'rb') as view:
    shown = mmap.mmap(view.fileno(), 0, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
    first = shown[:]
    for other in sys.argv[2:]:
        open(other, 'rb').read()
    shown.madvise(mmap.MADV_DONTNEED)
    os.posix_fadvise(view.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    assert shown[:] == first
";
    let others = (0..5).map(|index| site.view(format!("other{index}")));
    let paths: Vec<_> = std::iter::once(site.view("plain/3145745")).chain(others).collect();
    let read = || site.job().status()["totals"]["backing"]["bytes"].as_u64().unwrap();
    let _ = python(code, &paths.iter().map(std::path::PathBuf::as_path).collect::<Vec<_>>()).good();
    assert!(read() > 3_145_745 * 2 + (80 << 20), "the file was read a second time: {}", read());
}
