//! Pages with hostile text in every string that a file can bring to them. Each page must be read by
//! a strict parser, and hold no element and no attribute that our pages do not have.

#[path = "pages/strict.rs"]
mod strict;

use std::sync::atomic::AtomicBool;

use ignn::metrics::{ClassScores, Scores};
use ignn::predict::{ClassLine, PartScores};
use ignn::prelude::*;
use ignn::report::runs::{Group, ShownRun, page};
use ignn::report::study::{Choice, Cost, Dataset, Figure, Panel, Published, Row, Study};
use ignn::run::{Run, RunDir, SavedRun};

use strict::Node;

/// Text that would be markup, or run, wherever it is not escaped. A browser in which any of it runs
/// changes the title of the page.
fn hostile() -> Vec<String> {
    let run = "document.title='owned'";
    vec![
        format!("<script>{run}</script>"),
        format!("</title></style></pre></table></svg><script>{run}</script>"),
        format!("\"><img src=x onerror=\"{run}\">"),
        format!("' onmouseover='{run}' style='x"),
        format!("x\" onfocus=\"{run}\" autofocus tabindex=\"0"),
        format!("javascript:{run}"),
        format!("]]>--><!--<svg onload={run}>"),
        format!("&lt;script&gt;{run}&lt;/script&gt; &amp &#60; &notanentity; &#x3c;b>"),
        "a\u{0}b\u{1b}[31m\u{7f}\u{9b}\r\n\u{b}\u{c}\u{85}".into(),
        "\u{202e}txt.exe\u{2066}\u{2069}\u{2028}\u{feff}".into(),
        "<".repeat(100_000),
        "0\n\t\u{fffe}\u{10ffff}".into(),
        String::new(),
    ]
}

/// A finished run of a few epochs.
fn trained() -> SavedRun {
    let graph = GraphBuilder::new(4)
        .edges([(0, 1), (2, 3)])
        .features(1, vec![1.0, 1.0, -1.0, -1.0])
        .classes(["a", "b"], (0..4).map(|node| Some(node / 2)))
        .split([0, 2], [1], [3])
        .build()
        .unwrap();
    let mut config = Config::default();
    (config.model.state, config.train.epochs) = (vec![4], 3);
    let directory = tempfile::tempdir().unwrap();
    let run = Run::new(graph, config, directory.path().join("run"));
    let run = run.train(&mut (), &AtomicBool::new(false)).unwrap();
    SavedRun::read(&run.directory).unwrap()
}

/// The run with this text in all its strings.
fn with_text(run: &SavedRun, text: &str) -> ShownRun {
    let mut saved = run.clone();
    saved.directory = RunDir::new(format!("runs/{text}"));
    saved.config_text = format!("# {text}\nseed = \"{text}\"\n");
    let rename = |part: &mut ignn::train::PartRecord| {
        part.scores.insert(text.into(), 0.5);
    };
    for record in &mut saved.records {
        for part in [&mut record.train, &mut record.validation, &mut record.test] {
            part.iter_mut().for_each(rename);
        }
    }
    let summary = saved.summary.as_mut().unwrap();
    for place in [
        &mut summary.version,
        &mut summary.dataset.checksum,
        &mut summary.machine.simd,
        &mut summary.machine.ended,
    ] {
        *place = text.into();
    }
    summary.dataset.name = Some(text.into());
    summary.machine.processor = Some(text.into());
    let scores =
        ClassScores { class: 0, precision: 0.5, recall: 0.5, f1: 0.5, support: 1, predicted: 1 };
    let scored = Scores {
        accuracy: Some(0.5),
        micro_f1: Some(0.5),
        macro_f1: Some(0.5),
        ..Scores::default()
    };
    let classes = PartScores {
        error_bound: None,
        part: text.into(),
        nodes: Some(1),
        graphs: None,
        labelled: 1,
        scores: scored,
        classes: vec![ClassLine { name: text.into(), scores }; 50],
        confusion: None,
    };
    ShownRun { saved, classes: Some(classes) }
}

/// A study with this text in all its strings.
fn study(text: &str) -> Study {
    let text = || text.to_string();
    let figure = || Figure { mean: 0.5, deviation: 0.1, count: 2 };
    let row = |x| Row {
        point: text(),
        x,
        method: text(),
        score: text(),
        validation: Some(figure()),
        best_test: Some(figure()),
        published: vec![Published { value: 0.5, deviation: None, source: text() }],
        cost: Some(Cost::of_seconds(1.0)),
        failure: Some(text()),
    };
    Study {
        name: text(),
        title: text(),
        about: text(),
        is_quick: false,
        notes: vec![text()],
        command: text(),
        choices: vec![Choice { whose: text(), tried: text(), by: text(), saw_test: None }],
        datasets: vec![Dataset {
            name: text(),
            nodes: 1,
            nonzeros: 1,
            bytes_on_disk: None,
            seconds: None,
            peak_bytes: None,
            scaling: Vec::new(),
        }],
        panels: vec![Panel {
            id: text(),
            title: text(),
            points: text(),
            axis: Some(text()),
            repeats: text(),
            rows: vec![row(1.0), row(2.0)],
        }],
        commands: vec![text()],
        facts: vec![(text(), text())],
    }
}

/// The text of a page that must show this one: as it is, or the beginning of a long one.
fn expected(text: &str) -> String {
    let readable = ignn::report::readable::line(text.trim(), 1000);
    readable.chars().take(400).collect()
}

#[test]
fn hostile_text_stays_text_in_a_page_of_runs() {
    let run = trained();
    let template = strict::parse(&page("t", &[group("g", &run, "x")]).render());
    for text in hostile() {
        let one = group(&text, &run, &text);
        let seeds = Group { name: text.clone(), runs: [&one.runs[..], &one.runs].concat() };
        for groups in [vec![one.clone()], vec![one.clone(), seeds]] {
            let html = page(&text, &groups).render();
            let nodes = strict::parse(&html);
            assert!(html.len() < 4_000_000, "{} bytes", html.len());
            if groups.len() == 1 {
                assert_eq!(shape(&nodes), shape(&template), "{text:?}");
            }
            shows(&nodes, &text);
        }
    }
}

#[test]
fn hostile_text_stays_text_in_a_page_of_a_study() {
    let template = strict::parse(&study("x").page().render());
    for text in hostile() {
        let nodes = strict::parse(&study(&text).page().render());
        assert_eq!(shape(&nodes), shape(&template), "{text:?}");
        shows(&nodes, &text);
    }
}

fn group(name: &str, run: &SavedRun, text: &str) -> Group {
    Group { name: name.into(), runs: vec![with_text(run, text)] }
}

/// The names of all elements and their attributes, in order.
fn shape(nodes: &[Node]) -> Vec<String> {
    let tags = nodes.iter().filter_map(|node| match node {
        Node::Open(name, attributes) => {
            let names: Vec<&str> = attributes.iter().map(|(name, _)| name.as_str()).collect();
            Some(format!("{name} {}", names.join(" ")))
        }
        _ => None,
    });
    tags.collect()
}

/// Asserts that a heading shows the text, whole or as far as it is shown.
fn shows(nodes: &[Node], text: &str) {
    let mut texts = nodes.iter().filter_map(|node| match node {
        Node::Text(text) => Some(text.replace('\n', "\\n").replace('\t', "\\t")),
        _ => None,
    });
    let expected = expected(text);
    assert!(texts.any(|shown| shown.contains(&expected)), "{text:?} is not shown");
}
