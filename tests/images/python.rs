//! An interpreter with its library in an image.

use std::fs;
use std::path::Path;
use std::process::Command as Program;

use forebay_tests::program::{python, run};

use crate::bed::{Bed, add_program};
use crate::for_root_and_a_user;

/// This machine's Python and its own library, without the packages of others and without its tests.
fn add_python(image: &Path) {
    let tell =
        "import sys, sysconfig; print(sys.executable, sys.base_prefix, sysconfig.get_paths()['stdlib'], sep='\\n')";
    let said = python(tell, &[]).good().text();
    let [program, _, library] = said.lines().collect::<Vec<_>>()[..] else { panic!("{said}") };
    let program = fs::canonicalize(program).unwrap();
    add_program(&program, image, program.to_str().unwrap().trim_start_matches('/'));
    std::os::unix::fs::symlink(&program, image.join("bin/python3")).unwrap();
    let to = image.join(library.trim_start_matches('/'));
    fs::create_dir_all(&to).unwrap();
    let copy = "cd \"$1\" && tar -c --exclude=test --exclude=tests --exclude=site-packages --exclude=dist-packages \
                --exclude=config-* --exclude=__pycache__ . | tar -x -C \"$2\"";
    let _ = run(Program::new("sh").args(["-euc", copy, "sh", library]).arg(&to)).good();
}

fn python_runs_in_an_image(bed: Bed) {
    add_python(&bed.at("source/image"));
    let _ = bed.job.command("refresh", &[bed.at("source").as_os_str()]).good();
    let code =
        "import json, os, sys; print(json.dumps([sys.version_info[0], os.getcwd(), os.path.exists('/etc/made')]))";
    let words = ["--image", &bed.image("image"), "--", "python3", "-I", "-c", code];
    assert_eq!(bed.run(&words).good().text(), format!("[3, \"{}\", true]\n", bed.at("work").display()));
    bed.job.down();
}
for_root_and_a_user!(python_runs_in_an_image, [Command("python3"), Command("tar")]);
