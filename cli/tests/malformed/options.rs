//! Options that contradict each other, and outputs that cannot be written.

use super::{Case, case, check_all, edges};
use crate::sandbox::Sandbox;

fn path(name: &'static str, arguments: &str, message: &'static str) -> Case {
    edges(name, &format!("e.txt {arguments}"), message).file("e.txt", "0 1\n1 2\n")
}

#[test]
fn options() {
    check_all(&[
        path(
            "labels and communities",
            "--labels y.csv --communities c.txt",
            "the argument '--labels <FILE>' cannot be used with '--communities <FILE>'\n\nUsage: \
             ignn ingest edges --out <DIR> --labels <FILE> --quiet <FILE>...\n\nFor more \
             information, try '--help'.",
        ),
        path(
            "memory without a unit",
            "--memory 4",
            "invalid value '4' for '--memory <SIZE>': the unit is missing: expected a size with a \
             unit, such as 2GiB or 512MiB, or a share such as 50%\n\nFor more information, try \
             '--help'.",
        ),
        path(
            "memory in words",
            "--memory lots",
            "invalid value 'lots' for '--memory <SIZE>': expected a size with a unit, such as \
             2GiB or 512MiB, or a share such as 50%\n\nFor more information, try '--help'.",
        ),
        path(
            "too little memory",
            "--memory 1MiB",
            "invalid value '1MiB' for '--memory <SIZE>': too small: expected at least 16.0 \
             MiB\n\nFor more information, try '--help'.",
        ),
        path(
            "no threads",
            "--threads 0",
            "invalid value '0' for '--threads <N>': expected a number of threads, at least 1\n\nFor \
             more information, try '--help'.",
        ),
        path(
            "a word of another option",
            "--order renorm",
            "invalid value 'renorm' for '--order <ORDER>'\n  [possible values: none, degree, \
             rcm, cluster]\n\nFor more information, try '--help'.",
        ),
        path(
            "too little memory for an order",
            "--order rcm --memory 16MiB --nodes 10000000",
            "e.txt: --order needs 343 MiB (found --memory 16 MiB): raise --memory, or use --order \
             none",
        ),
    ]);
}

#[test]
fn outputs() {
    let to = |name, out: &str, message| {
        case(name, format!("ingest edges e.txt --out {out}"), message).file("e.txt", "0 1\n1 2\n")
    };
    check_all(&[
        to(
            "a directory that is there",
            "there",
            "there: already exists: choose another name, or pass --force to replace it",
        )
        .file("there/notes.txt", "mine"),
        to(
            "a file that is there",
            "there",
            "there: already exists: choose another name, or pass --force to replace it",
        )
        .file("there", "mine"),
        to(
            "a parent that is a file",
            "there/d",
            "there: parent of the output (found a file, expected a directory)",
        )
        .file("there", "mine"),
        to("no name", "x/.", "x/.: output (found a path without a name, expected a new directory)"),
        to("no name", "..", "..: output (found a path without a name, expected a new directory)"),
        case(
            "a raw form that is there",
            "generate grid --rows 3 --columns 3 --raw there",
            "there: already exists: choose another name, or pass --force to replace it",
        )
        .file("there/x", ""),
    ]);
}

#[test]
fn a_failed_job_leaves_no_parent_directory_behind() {
    let sandbox = Sandbox::new();
    sandbox.file("e.txt", "0 1\n7\n");
    sandbox.ignn(&["ingest", "edges", "e.txt", "--out", "new/deep/d", "--quiet"]).exits(2);
    assert_eq!(sandbox.names(), ["e.txt"]);
}
