use super::*;

fn shell(rank: u32, script: &str, directory: &Path) -> Starter {
    let stderr = directory.join(format!("stderr-{rank}"));
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdin(Stdio::null()).stderr(File::create(&stderr).unwrap());
    Starter { name: format!("the shell of rank {rank}"), ranks: vec![NodeRank(rank)], command, stderr }
}

fn says_ready(rank: u32) -> String {
    format!(r#"echo hello; echo '{{"ready":{{"rank":{rank},"pid":'$$',"view":"/v","host":"h","port":1}}}}'; "#)
}

fn run(starters: Vec<Starter>) -> Result<Started, StartFailure> {
    start(starters, Duration::from_secs(20), drop, &mut |_| {})
}

/// A process by the number that a script wrote down.
fn ended(path: &Path) -> bool {
    let pid = std::fs::read_to_string(path).unwrap().trim().parse().unwrap();
    Process::of(pid).is_none()
}

#[test]
fn all_ready() {
    let temporary = tempfile::tempdir().unwrap();
    let note = r#"echo '{"note":{"rank":1,"message":"recovered"}}'; "#;
    let starters = vec![
        shell(0, &says_ready(0), temporary.path()),
        shell(1, &format!("{note}{}", says_ready(1)), temporary.path()),
    ];
    let mut counts = Vec::new();
    let started = start(starters, Duration::from_secs(20), drop, &mut |count| counts.push(count)).unwrap();
    assert_eq!(started.ready.iter().map(|ready| ready.rank.0).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(started.notes, [(NodeRank(1), "recovered".to_owned())]);
    assert_eq!(counts, [1, 2]);
}

#[test]
fn one_starter_may_cover_several_ranks() {
    let temporary = tempfile::tempdir().unwrap();
    let mut both = shell(0, &(says_ready(0) + &says_ready(1)), temporary.path());
    both.ranks.push(NodeRank(1));
    assert_eq!(run(vec![both]).unwrap().ready.len(), 2);

    let mut half = shell(0, &(says_ready(0) + "echo lost >&2; exit 3"), temporary.path());
    half.ranks.push(NodeRank(1));
    let failure = run(vec![half]).unwrap_err();
    let reason = &failure.reasons[&NodeRank(1)];
    assert!(reason.contains("exit status 3") && reason.contains("lost"), "{reason}");
    assert_eq!(failure.ready, [NodeRank(0)]);
}

#[test]
fn a_failure_stops_those_that_had_started() {
    let temporary = tempfile::tempdir().unwrap();
    let pid = temporary.path().join("pid");
    let runs = format!("echo $$ > {}; {} exec sleep 60", pid.display(), says_ready(0));
    let waits = format!("while ! [ -s {} ]; do sleep 0.01; done; ", pid.display());
    let fails = format!(r#"{waits}echo '{{"failed":{{"rank":1,"message":"no export"}}}}'; exit 1"#);
    let failure = run(vec![shell(0, &runs, temporary.path()), shell(1, &fails, temporary.path())]).unwrap_err();
    assert_eq!(failure.reasons, BTreeMap::from([(NodeRank(1), "no export".to_owned())]));
    assert!(ended(&pid));
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let temporary = tempfile::tempdir().unwrap();
    let mut missing = shell(0, "", temporary.path());
    missing.command = Command::new("/nonexistent/forebay");
    let failure = run(vec![missing]).unwrap_err();
    assert!(failure.reasons[&NodeRank(0)].contains("cannot run /nonexistent/forebay"));
}

#[test]
fn a_silent_node_is_late_and_ended() {
    let temporary = tempfile::tempdir().unwrap();
    let pid = temporary.path().join("pid");
    let script = format!("echo $$ > {}; echo thinking >&2; echo; exec sleep 60", pid.display());
    let starters = vec![shell(0, &script, temporary.path())];
    // Half a second is the deadline under test, not a wait for the script: what it must show is the end of a node
    // that never answers.
    let failure = start(starters, Duration::from_millis(500), drop, &mut |_| {}).unwrap_err();
    assert!(failure.reasons[&NodeRank(0)].contains("not ready after 500ms"), "{failure:?}");
    assert!(!pid.exists() || ended(&pid));
}

#[test]
fn an_interrupt_stops_everything() {
    let temporary = tempfile::tempdir().unwrap();
    let pid = temporary.path().join("pid");
    let script = format!("echo $$ > {}; {} exec sleep 60", pid.display(), says_ready(0));
    let starters = vec![shell(0, &script, temporary.path()), shell(1, "exec sleep 60", temporary.path())];
    let mut interrupt = None;
    let failure = {
        let (sender, receiver) = channel();
        let on_ready = &mut |_| {
            let interrupt: Interrupt = receiver.recv().unwrap();
            interrupt.now();
        };
        start(starters, Duration::from_secs(20), |handle| interrupt = sender.send(handle).ok(), on_ready).unwrap_err()
    };
    assert!(interrupt.is_some() && failure.interrupted);
    assert!(ended(&pid));
}

#[test]
fn the_tail_is_bounded() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("log");
    let text: String = (0..10_000).map(|n| format!("line {n}\n\n")).collect();
    std::fs::write(&path, text).unwrap();
    let tail = tail(&path);
    assert_eq!(tail.lines().count(), TAIL_LINES);
    assert!(tail.ends_with("line 9999"));
}
