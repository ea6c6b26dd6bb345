use std::fs::File;
use std::path::Path;

use super::*;

fn shell(rank: u32, script: &str, directory: &Path) -> Starter {
    let stderr = directory.join(format!("stderr-{rank}"));
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdin(Stdio::null()).stderr(File::create(&stderr).unwrap());
    let name = format!("the shell of rank {rank}");
    Starter { name, ranks: vec![NodeRank(rank)], command, stderr, leaves: false, trial: None }
}

/// A report of the root about so many nodes.
fn says(ready: usize, missing: &str, rest: &str) -> String {
    let (by, is_cut) = (r#""by":0,"#, r#""is_cut":false,"#);
    format!(
        r#"echo hello; echo '{{"gathered":{{{by}"ready":{ready},{is_cut}"missing":[{missing}],"troubles":[],"slowest":null,{rest}}}}}'; "#
    )
}

fn says_all_ready(count: usize) -> String {
    says(count, "", r#""is_last":true"#)
}

fn says_but(ready: usize, missing: &str) -> String {
    says(ready, missing, r#""is_last":false"#)
}

fn fails(rank: u32, message: &str) -> String {
    format!(r#"echo '{{"failed":{{"rank":{rank},"message":"{message}"}}}}'; "#)
}

const LONG: Duration = Duration::from_secs(20);

fn options(timeout: Duration, when_missing: WhenMissing) -> StartOptions {
    StartOptions { at_once: 100, timeout, when_missing }
}

fn run(starters: Vec<Starter>) -> Result<Started, StartFailure> {
    start(starters, options(LONG, WhenMissing::Fail), drop, &mut |_| {})
}

fn go_on(starters: Vec<Starter>, timeout: Duration) -> Result<Started, StartFailure> {
    start(starters, options(timeout, WhenMissing::Continue), drop, &mut |_| {})
}

/// A process by the number that a script wrote down.
fn ended(path: &Path) -> bool {
    let pid = std::fs::read_to_string(path).unwrap().trim().parse().unwrap();
    Process::of(pid).is_none()
}

#[test]
fn one_speaks_for_all() {
    let temporary = tempfile::tempdir().unwrap();
    let note = r#"echo '{"note":{"rank":1,"message":"recovered"}}'; "#;
    let speaks = format!("{}{}exec sleep 60", says_but(1, "[1,1]"), says_all_ready(2));
    let heard = temporary.path().join("heard");
    let waits = format!("until [ -e {} ]; do sleep 0.01; done; ", heard.display());
    let starters = vec![
        shell(0, &(waits + &speaks), temporary.path()),
        shell(1, &format!("{note}touch {}; exec sleep 60", heard.display()), temporary.path()),
    ];
    let mut counts = Vec::new();
    let started =
        start(starters, options(LONG, WhenMissing::Fail), drop, &mut |waiting| counts.extend(ready(&waiting))).unwrap();
    assert!(started.missing.is_empty());
    counts.dedup();
    counts.retain(|count| *count > 0);
    assert_eq!(started.notes, [(NodeRank(1), "recovered".to_owned())]);
    assert_eq!((counts, started.lines_count), (vec![1, 2], 3));
    assert_eq!(started.running.len(), 2);
    end_all(&started.running, STOP_GRACE);
}

#[test]
fn one_starter_may_cover_several_ranks() {
    let temporary = tempfile::tempdir().unwrap();
    let mut both = shell(0, &says_all_ready(2), temporary.path());
    both.ranks.push(NodeRank(1));
    assert!(run(vec![both]).unwrap().missing.is_empty());

    let mut half = shell(0, &(says_but(1, "[1,1]") + "echo lost >&2; exit 3"), temporary.path());
    half.ranks.push(NodeRank(1));
    let failure = run(vec![half]).unwrap_err();
    let reason = &failure.reasons[&NodeRank(1)];
    assert!(reason.contains("exit status 3") && reason.contains("lost"), "{reason}");
    assert_eq!(failure.ready_count, 1);
}

#[test]
fn a_starter_that_leaves_its_node_running_has_not_failed() {
    let temporary = tempfile::tempdir().unwrap();
    let left = temporary.path().join("left");
    let mut leaves = shell(1, &format!("touch {}", left.display()), temporary.path());
    leaves.leaves = true;
    let waits = format!("until [ -e {} ]; do sleep 0.01; done; ", left.display());
    let speaks = shell(0, &(waits + &says_all_ready(2) + "exec sleep 60"), temporary.path());
    let started = run(vec![leaves, speaks]).unwrap();
    assert_eq!(started.running.len(), 1, "the one that stays");
    end_all(&started.running, STOP_GRACE);

    let mut fails = shell(1, "echo no route >&2; exit 255", temporary.path());
    fails.leaves = true;
    let failure = run(vec![fails]).unwrap_err();
    assert!(failure.reasons[&NodeRank(1)].contains("no route"), "{failure:?}");
}

/// A remote shell that runs nothing and is content: nobody is left to speak, and nobody waits for that.
#[test]
fn starters_that_leave_without_a_word_have_failed() {
    let temporary = tempfile::tempdir().unwrap();
    let starters = (0..2).map(|rank| Starter { leaves: true, ..shell(rank, "echo welcome", temporary.path()) });
    let failure = run(starters.collect()).unwrap_err();
    let told = "the shell of rank 1 ended without saying that the node is ready";
    assert_eq!((failure.reasons.len(), failure.reasons[&NodeRank(1)].as_str()), (2, told));
}

#[test]
fn a_failure_stops_those_that_had_started() {
    let temporary = tempfile::tempdir().unwrap();
    let pid = temporary.path().join("pid");
    let runs = format!("echo $$ > {}; {} exec sleep 60", pid.display(), says_but(1, "[1,1]"));
    let waits = format!("while ! [ -s {} ]; do sleep 0.01; done; ", pid.display());
    let fails = waits + &fails(1, "no export") + "exit 1";
    let failure = run(vec![shell(0, &runs, temporary.path()), shell(1, &fails, temporary.path())]).unwrap_err();
    assert_eq!(failure.reasons, BTreeMap::from([(NodeRank(1), "no export".to_owned())]));
    assert!(ended(&pid));
}

#[test]
fn a_job_goes_on_without_nodes_that_failed_once_all_others_are_ready() {
    let temporary = tempfile::tempdir().unwrap();
    let failed = temporary.path().join("failed");
    let waits = format!("until [ -e {} ]; do sleep 0.01; done; ", failed.display());
    let runs = says_but(1, "[1,2]") + &waits + &says_but(2, "[2,2]") + "exec sleep 60";
    let other = shell(1, "exec sleep 60", temporary.path());
    let fails =
        shell(2, &(fails(2, "no export") + &format!("touch {}; exec sleep 60", failed.display())), temporary.path());
    let started = go_on(vec![shell(0, &runs, temporary.path()), other, fails], LONG).unwrap();
    assert_eq!(started.missing, BTreeMap::from([(NodeRank(2), "no export".to_owned())]));
    assert_eq!(started.running.len(), 2, "what was started for the missing node is ended");
    end_all(&started.running, STOP_GRACE);
}

#[test]
fn a_job_goes_on_without_silent_nodes_when_the_time_is_up() {
    let temporary = tempfile::tempdir().unwrap();
    let missing = r#"{"rank":1,"by":3,"why":"no route"}"#;
    let runs = says_but(2, "[1,2]").replace(r#""troubles":[]"#, &format!(r#""troubles":[{missing}]"#));
    let starters = || {
        let runs = shell(0, &format!("{runs}exec sleep 60"), temporary.path());
        let hangs = |rank| shell(rank, "exec sleep 60", temporary.path());
        let trial = Some("ssh n2 true".to_owned());
        vec![runs, hangs(1), Starter { trial, ..hangs(2) }]
    };
    // The deadline under test: time enough for a shell to say a line.
    let deadline = Duration::from_secs(2);
    let started = go_on(starters(), deadline).unwrap();
    assert_eq!(started.missing.keys().map(|rank| rank.0).collect::<Vec<_>>(), [1, 2]);
    let why = &started.missing[&NodeRank(1)];
    assert!(why.contains("not ready after 2s") && why.contains("node 3 cannot reach it: no route"), "{why}");
    assert!(started.missing[&NodeRank(2)].contains("the shell of rank 2 gave no answer; try: ssh n2 true"));
    assert!(why.contains("no route") && !why.contains("try:"), "{why}");
    end_all(&started.running, STOP_GRACE);

    let failure = start(starters(), options(deadline, WhenMissing::Fail), drop, &mut |_| {}).unwrap_err();
    assert_eq!(failure.reasons.keys().map(|rank| rank.0).collect::<Vec<_>>(), [1, 2], "the ready one has not failed");
    assert_eq!(failure.ready_count, 2);
}

/// A node that reaches nobody gives up waiting for the others, and speaks for itself alone.
#[test]
fn a_node_that_is_cut_off_does_not_end_the_start_of_the_others() {
    let temporary = tempfile::tempdir().unwrap();
    let spoken = temporary.path().join("spoken");
    let waits = format!("until [ -e {} ]; do sleep 0.01; done; ", spoken.display());
    let runs = says_but(2, "[2,2]") + &waits + &says_all_ready(3) + "exec sleep 60";
    let alone = says(1, "[0,1]", r#""is_last":true"#).replace(r#""by":0"#, r#""by":2"#);
    let until_heard = format!("until [ -e {} ]; do sleep 0.01; done; ", temporary.path().join("heard").display());
    let cut_off = format!("{until_heard}{alone}touch {}; exec sleep 60", spoken.display());
    let starters = vec![
        shell(0, &runs, temporary.path()),
        shell(1, "exec sleep 60", temporary.path()),
        shell(2, &cut_off, temporary.path()),
    ];
    let heard = temporary.path().join("heard");
    let on_wait = &mut |waiting: Waiting<'_>| drop((ready(&waiting) == Some(2)).then(|| File::create(&heard)));
    let started = start(starters, options(LONG, WhenMissing::Continue), drop, on_wait).unwrap();
    assert_eq!(started.missing, BTreeMap::new());
    end_all(&started.running, STOP_GRACE);
}

/// The number of nodes that are ready, if that is told.
fn ready(waiting: &Waiting<'_>) -> Option<usize> {
    if let Waiting::Ready(count) = waiting { Some(*count) } else { None }
}

#[test]
fn late_nodes_are_named_while_the_start_goes_on() {
    let temporary = tempfile::tempdir().unwrap();
    let runs = shell(0, &(says_but(2, "[1,1]") + "exec sleep 60"), temporary.path());
    let silent = shell(1, "exec sleep 60", temporary.path());
    let mut told = Vec::new();
    let mut interrupt = None;
    let (sender, receiver) = channel();
    let on_wait = &mut |waiting: Waiting<'_>| {
        if let Waiting::Late(late) = waiting {
            told.push(late.clone());
            let interrupt: Interrupt = receiver.recv().unwrap();
            interrupt.now();
        }
    };
    let with = |handle| interrupt = sender.send(handle).ok();
    start(vec![runs, silent], options(LONG, WhenMissing::Fail), with, on_wait).unwrap_err();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].keys().collect::<Vec<_>>(), [&NodeRank(1)], "the other one is ready");
    assert!(told[0][&NodeRank(1)].starts_with("not ready after 4 s; the shell of rank 1 still runs"), "{told:?}");
    assert!(interrupt.is_some());
}

#[test]
fn a_person_who_waits_is_told_again_though_nothing_is_heard() {
    let temporary = tempfile::tempdir().unwrap();
    let runs = shell(0, &(says_but(1, "[1,1]") + "exec sleep 60"), temporary.path());
    let (mut told, deadline) = (Vec::new(), 3 * TELL_INTERVAL);
    let silent = shell(1, "exec sleep 60", temporary.path());
    start(vec![runs, silent], options(deadline, WhenMissing::Fail), drop, &mut |waiting| told.extend(ready(&waiting)))
        .unwrap_err();
    assert!(told.len() >= 3 && told.last() == Some(&1), "{told:?}");
}

#[test]
fn a_job_without_any_node_does_not_go_on() {
    let temporary = tempfile::tempdir().unwrap();
    let failure = go_on(vec![shell(0, &fails(0, "no export"), temporary.path())], LONG).unwrap_err();
    assert_eq!(failure.reasons.len(), 1);
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
    let failure =
        start(starters, options(Duration::from_millis(500), WhenMissing::Fail), drop, &mut |_| {}).unwrap_err();
    assert!(failure.reasons[&NodeRank(0)].contains("not ready after 500ms"), "{failure:?}");
    assert!(!pid.exists() || ended(&pid));
}

#[test]
fn an_interrupt_stops_everything() {
    let temporary = tempfile::tempdir().unwrap();
    let pid = temporary.path().join("pid");
    let script = format!("echo $$ > {}; {} exec sleep 60", pid.display(), says_but(1, "[1,1]"));
    let starters = vec![shell(0, &script, temporary.path()), shell(1, "exec sleep 60", temporary.path())];
    let mut interrupt = None;
    let failure = {
        let (sender, receiver) = channel();
        let on_ready = &mut |waiting: Waiting<'_>| {
            if ready(&waiting).is_none_or(|count| count == 0) {
                return;
            }
            let interrupt: Interrupt = receiver.recv().unwrap();
            interrupt.now();
        };
        start(starters, options(LONG, WhenMissing::Fail), |handle| interrupt = sender.send(handle).ok(), on_ready)
            .unwrap_err()
    };
    assert!(interrupt.is_some() && failure.interrupted);
    assert!(ended(&pid));
}

#[test]
fn not_more_begin_at_once_than_may_and_a_silent_one_keeps_no_other_from_its_turn() {
    let temporary = tempfile::tempdir().unwrap();
    let first = temporary.path().join("first");
    let after_first = format!("[ -e {} ] || exit 9; {}exec sleep 60", first.display(), says_all_ready(2));
    let one_by_one = StartOptions { at_once: 1, ..options(LONG, WhenMissing::Fail) };
    let says_ready = r#"echo '{"ready":{"rank":0,"pid":1}}'; exec sleep 60"#;
    for rest in [says_ready, "exec sleep 60", "exit 0"] {
        let mut begun = shell(0, &format!("sleep 0.05; touch {}; {rest}", first.display()), temporary.path());
        begun.leaves = true;
        let starters = vec![begun, shell(1, &after_first, temporary.path())];
        let started = start(starters, one_by_one, drop, &mut |_| {}).unwrap();
        assert!(started.missing.is_empty() && started.launch > Duration::from_millis(50), "{rest}: {started:?}");
        end_all(&started.running, STOP_GRACE);
        std::fs::remove_file(&first).unwrap();
    }
}

#[test]
fn nodes_whose_turn_has_not_come_are_named_as_such() {
    let temporary = tempfile::tempdir().unwrap();
    let starters = vec![shell(0, "exec sleep 60", temporary.path()), shell(1, "exec sleep 60", temporary.path())];
    let one = StartOptions { at_once: 1, ..options(Duration::from_millis(200), WhenMissing::Fail) };
    let failure = start(starters, one, drop, &mut |_| {}).unwrap_err();
    assert!(failure.reasons[&NodeRank(1)].contains("its turn to be started had not come"), "{failure:?}");
}
