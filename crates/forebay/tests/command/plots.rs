//! `query --plot`: the picture, and the file that it takes the place of.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::place::Place;
use crate::queries::text;

#[test]
fn a_plot_replaces_a_picture_only_when_it_is_there() {
    let place = Place::new();
    let (file, plot, link) = (place.path("t.csv"), place.path("p.svg"), place.path("link.svg"));
    fs::write(&file, "x\n1\n2\nword\n").unwrap();
    fs::write(&plot, "an old picture").unwrap();
    fs::set_permissions(&plot, fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink(&plot, &link).unwrap();
    let said = place.fails(1, &["query", "gramian", text(&file), "--columns", "x", "--plot", text(&link)]);
    assert!(said.contains("1 row is bad"), "{said}");
    assert_eq!(fs::read_to_string(&plot).unwrap(), "an old picture");
    let onto_itself = place.fails(1, &["query", "digits", text(&file), "--plot", text(&file)]);
    assert!(onto_itself.contains("is read or written by this query"), "{onto_itself}");
    assert!(fs::read_to_string(&file).unwrap().ends_with("word\n"));
    place.succeeds(&["query", "gramian", "--on-error", "skip", text(&file), "--plot", text(&link)]);
    assert!(fs::read_to_string(&plot).unwrap().starts_with("<svg ") && link.is_symlink());
    assert_eq!(fs::metadata(&plot).unwrap().permissions().mode() & 0o777, 0o600);
    let said = place.succeeds(&["query", "digits", "--json", text(&file), "--plot", "/dev/null"]);
    assert!(said.contains("digits"));
    let names = fs::read_dir(place.path("")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| name.ends_with(".part")).count(), 0);
}

#[test]
fn a_plot_has_what_was_asked() {
    let place = Place::new();
    let file = place.path("t.csv");
    fs::write(&file, "up,down,flat\n1,9,5\n2,8,5\n3,7,5\n").unwrap();
    let plot = place.path("p.svg");
    place.succeeds(&["query", "gramian,entropy", text(&file), "--plot", text(&plot)]);
    let svg = fs::read_to_string(&plot).unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    for part in [
        "Bytes by value",
        "t.csv: 31 bytes, entropy",
        "share of all bytes",
        ">beyond ASCII<",
        "10 (newline): 4 (12.90 %)",
        ">224<",
        "up, up: 1.0000",
        "up, down: -1.0000",
        "flat, flat: NaN",
        ">-0.5<",
        "3 columns, 3 rows in which none is missing",
    ] {
        assert!(svg.contains(part), "{part}: {svg}");
    }
    place.succeeds(&["query", "digits", text(&file), "--plot", text(&plot)]);
    let svg = fs::read_to_string(&plot).unwrap();
    assert!(!svg.contains("Correlations") && svg.contains("9: 1 (11.11 %)"), "{svg}");
}

/// Columns of any number, scale and name.
#[test]
fn a_plot_of_columns_has_each_with_its_numbers() {
    let place = Place::new();
    let (file, plot) = (place.path("t.csv"), place.path("p.svg"));
    let drawn = |contents: &str| {
        fs::write(&file, contents).unwrap();
        place.succeeds(&["query", "stats", text(&file), "--plot", text(&plot)]);
        fs::read_to_string(&plot).unwrap()
    };
    let svg = drawn("a,b\n1,2\n3,\n");
    for part in [
        "2 rows, 2 columns<",
        "a: min 1, mean 2, max 3, deviation 1, 2 values, 0 missing",
        ">50 %<",
        ">all 2<",
        ">1.5<",
    ] {
        assert!(svg.contains(part), "{part}: {svg}");
    }
    let odd = "\u{6e29}\u{5ea6},<b>,\x1b,none,huge\n1,1e-300,inf,,1e300\n2,3e-300,1,,-1e300\n";
    let svg = drawn(odd);
    for part in [">\u{6e29}\u{5ea6}<", ">&lt;b&gt;<", ">infinite values<", "a scale of its own", ">-1e300<", ">3e-300<"]
    {
        assert!(svg.contains(part), "{part}: {svg}");
    }
    assert!(!svg.contains(['\x1b']) && !svg.contains("NaN"), "{svg}");
    let names: Vec<String> = (0..300).map(|column| format!("c{column}")).collect();
    let svg = drawn(&format!("{}\n{}\n", names.join(","), vec!["1"; 300].join(",")));
    assert!(svg.contains(">c199<") && !svg.contains(">c200<") && svg.contains("the first 200 are shown"), "{svg}");
}

/// The pixels as Python's zlib finds them.
#[test]
fn a_plot_is_png_where_its_name_says_so() {
    let place = Place::new();
    let (file, plot) = (place.path("t.csv"), place.path("p.PNG"));
    fs::write(&file, "up,down,flat\n1,9,5\n2,8,5\n3,7,5\n").unwrap();
    place.succeeds(&["query", "gramian,entropy", text(&file), "--plot", text(&plot)]);
    let script = "import struct, sys, zlib\n\
        b = open(sys.argv[1], 'rb').read()\n\
        assert b[:8] == b'\\x89PNG\\r\\n\\x1a\\n'\n\
        at, chunks = 8, {}\n\
        while at < len(b):\n\
        \x20   n, kind = struct.unpack('>I4s', b[at:at+8])\n\
        \x20   assert zlib.crc32(b[at+4:at+8+n]) == struct.unpack('>I', b[at+8+n:at+12+n])[0]\n\
        \x20   chunks[kind] = b[at+8:at+8+n]\n\
        \x20   at += 12 + n\n\
        w, h, depth, colours = struct.unpack('>IIBB', chunks[b'IHDR'][:10])\n\
        raw = zlib.decompress(chunks[b'IDAT'])\n\
        assert (depth, colours, len(raw)) == (8, 2, h * (1 + 3 * w))\n\
        row = lambda y: raw[y * (1 + 3 * w) + 1:(y + 1) * (1 + 3 * w)]\n\
        seen = {row(y)[3 * x:3 * x + 3].hex() for y in range(h) for x in range(w)}\n\
        print(w, h, len(b), *[c in seen for c in ('ffffff', '0072b2', '2166ac', 'b2182b', 'bbbbbb', '000000')])";
    let done = std::process::Command::new("python3").args(["-c", script]).arg(&plot).output().unwrap();
    let said = String::from_utf8(done.stdout).unwrap();
    let words: Vec<&str> = said.split_whitespace().collect();
    assert!(words.len() == 9 && words[3..].iter().all(|word| *word == "True"), "{said}{:?}", done.stderr);
    assert!(words[2].parse::<usize>().unwrap() < 200_000, "{said} bytes: runs and rows that repeat are not said again");
}

#[test]
fn a_plot_has_a_histogram_a_column_and_correlations() {
    let place = Place::new();
    let (file, plot) = (place.path("t.csv"), place.path("p.svg"));
    let rows: String = (0..100).map(|x| format!("{x},{},word\n", 7 - x)).collect();
    fs::write(&file, format!("up,down,note\n{rows}")).unwrap();
    let _ = place.succeeds(&["query", "histogram,correlation", "--bins", "4", "--plot", text(&plot), text(&file)]);
    let drawn = fs::read_to_string(&plot).unwrap();
    for part in ["Histogram of up", "Histogram of down", "0 to 32: 32 (32.00 %)", "100 values"] {
        assert!(drawn.contains(part), "{part}");
    }
    assert!(!drawn.contains("Histogram of note") && drawn.contains("-1"), "{drawn}");
}
