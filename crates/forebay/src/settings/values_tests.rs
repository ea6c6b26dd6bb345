use super::*;

#[test]
fn sizes() {
    for (text, bytes) in [
        ("0", 0),
        ("4096", 4096),
        ("64MiB", 64 << 20),
        ("64mib", 64 << 20),
        ("1GB", 1_000_000_000),
        ("1.5GiB", 3 << 29),
        ("10 KB", 10_000),
        ("7B", 7),
        ("4k", 4096),
        ("4K", 4096),
        ("64M", 64 << 20),
        ("4G", 4 << 30),
        ("1.5g", 3 << 29),
        ("2 T", 2 << 40),
        ("4GB", 4_000_000_000),
        ("4kB", 4000),
    ] {
        assert_eq!(size(text), Ok(bytes), "{text}");
    }
    for text in ["", "x", "-1", "1e9", "MiB", "1,5GB", "1Gi", "k", "4kk", "4KG", "inf", "nan", "."] {
        assert!(size(text).unwrap_err().contains("is not a size"), "{text}");
    }
    assert!(size("99999999999TiB").unwrap_err().contains("too large"));
    assert!(size("99999999999.5TiB").unwrap_err().contains("too large"));
    assert!(size("€").is_err() && size("1€").is_err());
}

#[test]
fn shown_sizes_read_back() {
    for bytes in [0, 1, 1023, 1024, 64 << 20, 3 << 30, 1 << 40] {
        assert_eq!(size(&show_size(bytes)), Ok(bytes));
    }
    assert_eq!(show_size(1536 << 20), "1.5GiB");
}

#[test]
fn durations() {
    assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
    assert_eq!(duration("2s"), Ok(Duration::from_secs(2)));
    assert_eq!(duration("1.5min"), Ok(Duration::from_secs(90)));
    assert_eq!(duration("1h"), Ok(Duration::from_secs(3600)));
    for text in ["", "2", "s", "-1s", "1e3s", "2 weeks", "0s", "0.1ms"] {
        assert!(duration(text).is_err(), "{text}");
    }
    assert!(duration("99999999999999999999999h").unwrap_err().contains("too long"));
}

#[test]
fn lists_of_processors() {
    assert_eq!(cores("0-2,8,1"), Ok(vec![0, 1, 2, 8]));
    for text in ["", "a", "3-1", "1,,2", "0-99999", "1-"] {
        assert!(cores(text).is_err(), "{text}");
    }
}

#[test]
fn a_command_is_split_as_a_shell_would() {
    let split = |text| words(text).map(|words| words.join("|"));
    assert_eq!(split("ssh  -p 2222"), Ok("ssh|-p|2222".to_owned()));
    assert_eq!(
        split(r#"ssh -o "ProxyCommand=nc -x a %h" '-i/my key' a\ b"#),
        Ok("ssh|-o|ProxyCommand=nc -x a %h|-i/my key|a b".to_owned())
    );
    for (text, problem) in
        [("", "empty"), ("  ", "empty"), ("''", "empty"), ("ssh 'x", "unfinished"), ("a\\", "unfinished")]
    {
        assert!(words(text).unwrap_err().contains(problem), "{text}");
    }
}

#[test]
fn numbers_stay_in_their_range() {
    assert!(fan_out("0").unwrap_err().contains("from 1 to 1024"));
    assert!(port("65536").is_err() && port("0").is_err() && port("x").is_err());
    assert!(budget("1MiB").unwrap_err().contains("16MiB is the least"));
    assert!(read_ahead("5000").is_err());
    assert!(absolute_path("here").is_err());
    assert!(log_filter("a=nonsense").is_err());
    assert_eq!(security("seal"), Ok(Level::Seal));
    assert_eq!(key_sealing("off"), Ok(KeySealing::Off));
    assert_eq!(key_sealing("/run/m"), Ok(KeySealing::Socket("/run/m".into())));
    assert!(key_sealing("on").unwrap_err().contains("not an absolute path"));
    assert_eq!((links("asis"), links("view")), (Ok(LinksShown::AsIs), Ok(LinksShown::View)));
    assert!(links("relative").unwrap_err().contains("neither asis nor view"));
    assert_eq!(profile("/p/x"), Ok(ProfileChoice::File("/p/x".into())));
    assert!(profile("x").unwrap_err().contains("not an absolute path"));
    assert_eq!((pack("auto"), pack("off")), (Ok(true), Ok(false)));
    assert!(pack("on").is_err());
    assert!(profile_command("").is_err() && profile_command("a\nb").is_err() && profile_command("train").is_ok());
    assert!(security("none").unwrap_err().contains("auth, seal or off"));
}
