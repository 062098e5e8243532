//! `ignn bench`: what it prints, not how fast anything is.

use crate::sandbox::Sandbox;

/// A small graph, and the arguments that end a measurement at once.
fn with_graph() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox
        .ignn(&["generate", "rmat", "--scale", "8", "--normalise", "none", "--out", "d", "-q"])
        .exits(0);
    sandbox
}

const QUICK: [&str; 4] = ["--seconds", "0", "--threads", "1"];

#[test]
fn several_widths_make_one_table_and_one_list() {
    let sandbox = with_graph();
    let arguments = [&["bench", "sweep", "d", "--state", "1,4,20"][..], &QUICK].concat();
    let run = sandbox.ignn(&arguments).exits(0);
    let heading = run.stdout.lines().next().unwrap_or_default();
    for word in
        ["width", "forward", "adjoint", "ns/non-zero", "streamed", "random lines", "verified"]
    {
        assert!(heading.contains(word), "no {word} in {heading}");
    }
    let rows: Vec<Vec<&str>> =
        run.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    for width in ["1", "4", "20"] {
        let row = rows.iter().find(|row| row.first() == Some(&width) && row.contains(&"ms"));
        let row = row.unwrap_or_else(|| panic!("no width {width} in\n{}", run.stdout));
        assert_eq!(row.last(), Some(&"yes"), "{row:?}");
    }
    let run = run.says("256 nodes").says("no thread of 64 would wait");
    assert!(!run.stdout.contains("bounds"), "{}", run.stdout);

    let run = sandbox.ignn(&[&arguments[..], &["--json"]].concat()).exits(0);
    let widths = run.json()["widths"].as_array().cloned().unwrap_or_default();
    let found: Vec<_> = widths.iter().map(|one| one["width"].as_u64()).collect();
    assert_eq!(found, [Some(1), Some(4), Some(20)]);
    for one in &widths {
        assert_eq!(one["verified"], true, "{one}");
        for side in ["forward", "adjoint"] {
            for roof in ["best_seconds", "traffic_seconds", "random_line_seconds"] {
                assert!(one[side][roof].as_f64() > Some(0.0), "{side} {roof}: {one}");
            }
        }
    }
}

#[test]
fn the_cost_of_bounds_is_shown_when_asked() {
    let sandbox = with_graph();
    let arguments = [&["bench", "sweep", "d", "--state", "4", "--bounds"][..], &QUICK].concat();
    sandbox.ignn(&arguments).exits(0).says("spectral bound").says("certificate");
    let found = sandbox.ignn(&[&arguments[..], &["--json"]].concat()).exits(0).json();
    let bounds = &found["bounds"];
    for part in ["spectral_bound", "certificate"] {
        assert!(bounds[part]["passes"].as_u64() > Some(1), "{bounds}");
        assert!(bounds[part]["seconds"].as_f64() > Some(0.0), "{bounds}");
    }
    assert!(bounds["q"].as_f64() < Some(1.0), "{bounds}");
}
