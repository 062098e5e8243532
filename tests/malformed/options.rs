//! Options that contradict each other, and outputs that cannot be.

use super::{Case, case, edges, judge};
use crate::util::Sandbox;

fn path(name: &'static str, arguments: &str, message: &'static str) -> Case {
    edges(name, &format!("e.txt {arguments}"), message).file("e.txt", "0 1\n1 2\n")
}

#[test]
fn options() {
    judge(&[
        path("labels and communities", "--labels y.csv --communities c.txt", "?"),
        path("memory without a unit", "--memory 4", "?"),
        path("memory in words", "--memory lots", "?"),
        path("too little memory", "--memory 1MiB", "?"),
        path("no threads", "--threads 0", "?"),
        path("a word of another option", "--order renorm", "?"),
        path("too little memory for an order", "--order rcm --memory 16MiB --nodes 10000000", "?"),
    ]);
}

#[test]
fn outputs() {
    let to = |name, out: &str, message| {
        case(name, format!("ingest edges e.txt --out {out}"), message).file("e.txt", "0 1\n1 2\n")
    };
    judge(&[
        to("a directory that is there", "there", "?").file("there/notes.txt", "mine"),
        to("a file that is there", "there", "?").file("there", "mine"),
        to("a parent that is a file", "there/d", "?").file("there", "mine"),
        to("no name", "..", "?"),
        to("an existing raw directory", "there", "?").file("there/x", ""),
        case("a raw form that is there", "generate grid --width 3 --height 3 --raw there", "?").file("there/x", ""),
    ]);
}

#[test]
fn a_failed_run_leaves_no_parent_behind() {
    let sandbox = Sandbox::new();
    sandbox.file("e.txt", "0 1\n7\n");
    sandbox.ignn(&["ingest", "edges", "e.txt", "--out", "new/deep/d", "--quiet"]).exits(2);
    assert_eq!(sandbox.names(), ["e.txt"]);
}
