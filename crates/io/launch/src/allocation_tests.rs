use super::*;

type Environment<'a> = &'a [(&'a str, &'a str)];

fn lookup(environment: Environment<'_>) -> impl Fn(&str) -> Option<String> {
    move |name: &str| environment.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
}

fn allocation(environment: Environment<'_>, hostlist: Option<&str>) -> Result<Option<Allocation>, String> {
    let variable = lookup(environment);
    let ask = |program: &str, words: &[&str]| {
        assert_eq!((program, words), ("flux", &["getattr", "hostlist"][..]));
        hostlist.map(str::to_owned)
    };
    let found = Allocation::by(&variable, &ask).map_err(|error| error.to_string());
    if let Ok(Some(found)) = &found {
        assert_eq!(Allocation::job_of(&variable).as_ref(), Some(&found.job), "other commands find it");
        assert!(crate::check_job_name(&found.job).is_ok());
    }
    found
}

fn of_file(scheduler: Environment<'_>, hosts: &str, text: &str) -> Result<Option<Allocation>, String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let path = file.path().to_str().unwrap();
    let environment: Vec<(&str, &str)> = scheduler.iter().copied().chain([(hosts, path)]).collect();
    allocation(&environment, None)
}

fn of_pbs(job: &str, text: &str) -> Result<Option<Allocation>, String> {
    of_file(&[("PBS_JOBID", job)], "PBS_NODEFILE", text)
}

#[test]
fn the_environment_tells_of_an_allocation_of_slurm() {
    let read = |job: &str, list: &str| allocation(&[("SLURM_JOB_ID", job), ("SLURM_JOB_NODELIST", list)], None);
    assert_eq!(read("", "n1").unwrap(), None);
    let found = read("77", "n[1-2]").unwrap().unwrap();
    assert_eq!(
        (found.scheduler, found.hosts, found.list.as_str()),
        (Scheduler::Slurm, vec!["n1".into(), "n2".into()], "n[1-2]")
    );
    assert!(read("77", "").unwrap_err().contains("SLURM_JOB_NODELIST"));
    assert!(read("77", "n[1").is_err());
}

#[test]
fn an_instance_of_flux_is_asked_for_its_hosts() {
    let batch = [("FLUX_ENCLOSING_ID", "ƒ2Wz")];
    let found = allocation(&batch, Some("tioga[20-21]\n")).unwrap().unwrap();
    assert_eq!((found.scheduler, found.job.as_str(), found.number.as_str()), (Scheduler::Flux, "f2Wz", "ƒ2Wz"));
    assert_eq!(found.hosts, ["tioga20", "tioga21"]);
    assert!(allocation(&batch, None).unwrap_err().contains("flux getattr hostlist"));
    assert!(allocation(&batch, Some("a,b,a")).unwrap_err().contains("several brokers on a"));
    let program = [("FLUX_JOB_ID", "f2Wz"), ("FLUX_JOB_NNODES", "4")];
    let refused = allocation(&program, None).unwrap_err();
    assert!(refused.contains("job f2Wz") && refused.contains("--nodes HOSTLIST"), "{refused}");
    assert_eq!(allocation(&[("FLUX_JOB_ID", "f2Wz"), ("FLUX_JOB_NNODES", "1")], None), Ok(None));
    assert_eq!(allocation(&[("FLUX_URI", "local:///run/flux/local")], None), Ok(None), "of a login node");
}

#[test]
fn a_host_is_taken_once_however_many_slots_it_has() {
    let found = of_pbs("12[3].pbs01", "n2\nn2\nn1\n\nN2\nn1.cluster\n").unwrap().unwrap();
    assert_eq!((found.scheduler, found.job.as_str()), (Scheduler::Pbs, "12-3-"));
    assert_eq!(found.hosts, ["n2", "n1", "n1.cluster"]);
    assert_eq!(found.first_lines, [0, 2, 4], "lines that name a host count");
}

#[test]
fn the_server_of_a_job_may_have_a_long_name() {
    let found = of_pbs("2011234.polaris-pbs-01.hsn.cm.polaris.alcf.anl.gov", "n1\n").unwrap().unwrap();
    assert_eq!(found.job, "2011234");
    assert_eq!(found.number, "2011234.polaris-pbs-01.hsn.cm.polaris.alcf.anl.gov");
}

#[test]
fn a_job_of_lsf_and_one_of_an_array() {
    let found = |index| {
        of_file(&[("LSB_JOBID", "88"), ("LSB_JOBINDEX", index)], "LSB_DJOB_HOSTFILE", "a\na\nb\n").unwrap().unwrap()
    };
    assert_eq!((found("0").scheduler, found("0").job.as_str(), found("0").hosts.len()), (Scheduler::Lsf, "88", 2));
    assert_eq!(found("7").job, "88-7", "the jobs of an array share their number");
}

#[test]
fn outside_a_job_there_is_none_and_a_bad_file_is_named() {
    assert_eq!(of_pbs("", "n1\n").unwrap(), None);
    assert!(of_pbs("7", "n1\n-x\n").unwrap_err().contains("line 2: '-x' is not a host name"));
    assert!(of_pbs("7", "\n").unwrap_err().contains("names no hosts"));
    let gone = allocation(&[("PBS_JOBID", "7"), ("PBS_NODEFILE", "/nonexistent/nodes")], None);
    assert!(gone.unwrap_err().contains("cannot read $PBS_NODEFILE (/nonexistent/nodes)"));
}
