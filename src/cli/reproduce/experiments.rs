//! The experiments of the paper, one table: data, methods, settings, points, and the figures that others report.
//! Nothing is run here; how data are had is in `sources`.

use super::sources::Source;

/// An experiment.
pub struct Experiment {
    /// Its word on the command line.
    pub name: &'static str,
    pub title: &'static str,
    pub about: &'static str,
    pub panels: &'static [Panel],
}

/// A table or figure of the paper.
pub struct Panel {
    pub id: &'static str,
    pub title: &'static str,
    /// What a point is, in a word.
    pub points_are: &'static str,
    /// The axis of the figure with its unit; none for a table.
    pub axis: Option<&'static str>,
    pub scores: &'static [&'static str],
    pub judged: Judged,
    pub points: &'static [Point],
    pub methods: &'static [Method],
    /// Settings on top in the quick form.
    pub quick: &'static [&'static str],
}

/// How a figure is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// A run a seed.
    BySeeds,
    /// A cross-validation with so many folds, and so many in the quick form.
    ByFolds(usize, usize),
}

/// A dataset, or a setting of one, that all methods are tried on.
pub struct Point {
    pub name: &'static str,
    pub x: f64,
    pub data: Source,
    pub preset: &'static str,
    pub sets: &'static [&'static str],
    /// Whether the quick form has it.
    pub is_quick: bool,
}

/// A model.
pub struct Method {
    pub name: &'static str,
    /// Settings on top of the point's.
    pub sets: &'static [&'static str],
    /// Whether points make no difference to it: run once, drawn everywhere.
    pub is_constant: bool,
    /// Other data than the point's: the same set, prepared in another way.
    pub data: Option<Source>,
    pub published: &'static [Published],
}

/// A figure that others report, in per cent.
pub struct Published {
    pub point: &'static str,
    pub score: &'static str,
    pub value: f64,
    pub deviation: Option<f64>,
    pub source: &'static str,
}

const fn published(point: &'static str, score: &'static str, value: f64, source: &'static str) -> Published {
    Published { point, score, value, deviation: None, source }
}

const fn with_deviation(point: &'static str, value: f64, deviation: f64) -> Published {
    Published { point, score: "accuracy", value, deviation: Some(deviation), source: PAPER }
}

const fn method(name: &'static str, sets: &'static [&'static str]) -> Method {
    Method { name, sets, is_constant: false, data: None, published: &[] }
}

/// A baseline on communities: the preset is linear, starts from labels and holds still what is below the read-out, all for the
/// sake of the equilibrium.
macro_rules! community_baseline {
    ($name:literal, $kind:literal) => {
        method(
            $name,
            &[
                $kind,
                "model.activation=relu",
                "model.init_input=1",
                "model.normalise_state=false",
                "optim.learning_rate=0.01",
                "optim.layer_factor=1",
                "optim.table_factor=1",
            ],
        )
    };
}

const fn reported(
    name: &'static str,
    sets: &'static [&'static str],
    published: &'static [Published],
) -> Method {
    Method { name, sets, is_constant: false, data: None, published }
}

const PAPER: &str = "paper";
const CODE: &str = "published code";
const RERUN: &str = "re-run by others";

const fn chain(name: &'static str, length: u64, is_quick: bool) -> Point {
    // Information has to travel the whole length: as many sweeps as that takes.
    let sets = &["solver.max_sweeps=1000"];
    Point { name, x: length as f64, data: Source::Chains(length), preset: "chains", sets, is_quick }
}

const CHAINS: &[Point] = &[
    chain("10", 10, true),
    chain("20", 20, false),
    chain("40", 40, false),
    chain("60", 60, true),
    chain("80", 80, false),
    chain("100", 100, true),
    chain("150", 150, false),
    chain("200", 200, false),
];

/// One seed, 800 epochs, test at best validation, on a machine with two cores.
const CHAINS_OF_THE_CODE: &[Published] = &[
    published("10", "accuracy", 100.0, CODE),
    published("20", "accuracy", 100.0, CODE),
    published("40", "accuracy", 64.5, CODE),
    published("60", "accuracy", 100.0, CODE),
    published("80", "accuracy", 51.0, CODE),
    published("100", "accuracy", 54.5, CODE),
];

const fn depth(name: &'static str, steps: u64, sets: &'static [&'static str], is_quick: bool) -> Point {
    Point { name, x: steps as f64, data: Source::Chains(10), preset: "chains", sets, is_quick }
}

const DEPTHS: &[Point] = &[
    depth("1", 1, &["model.depth=1"], false),
    depth("2", 2, &["model.depth=2"], true),
    depth("4", 4, &["model.depth=4"], false),
    depth("6", 6, &["model.depth=6"], false),
    depth("8", 8, &["model.depth=8"], false),
    depth("10", 10, &["model.depth=10"], true),
];

// Rows of length 1 are a part of the published code of IGNN alone.
const SSE: Method = method("SSE", &["model.kind=sse", "model.normalise_state=false"]);
const GCN: Method = method("GCN", &["model.kind=gcn", "model.normalise_state=false"]);
const SGC: Method = method("SGC", &["model.kind=sgc", "model.normalise_state=false"]);
const GAT: Method = method("GAT", &["model.kind=gat", "model.normalise_state=false"]);

const QUICK_CHAINS: &[&str] = &["train.epochs=40"];

const CHAIN_PANELS: &[Panel] = &[
    Panel {
        id: "length",
        title: "Accuracy against the length of the chains (T = 2)",
        points_are: "length",
        axis: Some("nodes of a chain"),
        scores: &["accuracy"],
        judged: Judged::BySeeds,
        points: CHAINS,
        methods: &[reported("IGNN", &[], CHAINS_OF_THE_CODE), SSE, GCN, SGC, GAT],
        quick: QUICK_CHAINS,
    },
    Panel {
        id: "depth",
        title: "Accuracy against T, chains of 10 nodes",
        points_are: "T",
        axis: Some("T, layers or gathers"),
        scores: &["accuracy"],
        judged: Judged::BySeeds,
        points: DEPTHS,
        methods: &[Method { is_constant: true, ..method("IGNN", &[]) }, SSE, GCN, SGC, GAT],
        quick: QUICK_CHAINS,
    },
];

const OVERSMOOTHING_PANELS: &[Panel] = &[Panel {
    id: "oversmoothing",
    title: "Accuracy against the length of the chains, baselines with 10 layers",
    points_are: "length",
    axis: Some("nodes of a chain"),
    scores: &["accuracy"],
    judged: Judged::BySeeds,
    points: CHAINS,
    methods: &[
        reported("IGNN", &[], CHAINS_OF_THE_CODE),
        method("GCNII", &["model.kind=gcnii", "model.depth=10", "model.normalise_state=false"]),
        method(
            "DropEdge",
            &["model.kind=gcn", "model.depth=10", "model.drop_edge=0.2", "model.normalise_state=false"],
        ),
    ],
    quick: QUICK_CHAINS,
}];

const fn share(name: &'static str, percent: f64, sets: &'static [&'static str], is_quick: bool) -> Point {
    Point { name, x: percent, data: Source::Communities, preset: "amazon", sets, is_quick }
}

const AMAZON_PANELS: &[Panel] = &[Panel {
    id: "share",
    title: "F1 by the top-k rule against the share of training nodes",
    points_are: "train",
    axis: Some("training nodes, % of the labelled ones"),
    scores: &["top_k_micro_f1", "top_k_macro_f1", "micro_f1", "macro_f1"],
    judged: Judged::BySeeds,
    points: &[
        share("5 %", 5.0, &["train.split=train5"], false),
        share("6 %", 6.0, &["train.split=train6"], true),
        share("7 %", 7.0, &["train.split=train7"], false),
        share("8 %", 8.0, &["train.split=train8"], false),
        share("9 %", 9.0, &["train.split=train9"], true),
    ],
    methods: &[
        method("IGNN", &[]),
        method("label propagation", &["model.kind=label-propagation"]),
        community_baseline!("SSE", "model.kind=sse"),
        community_baseline!("GCN", "model.kind=gcn"),
        community_baseline!("SGC", "model.kind=sgc"),
        community_baseline!("structural", "model.kind=structural"),
    ],
    quick: &["model.state=58", "train.epochs=4"],
}];

/// On the renormalised graphs: plain adjacency is for the equilibrium, whose projection knows its radius.
const fn ppi_baseline(
    name: &'static str,
    sets: &'static [&'static str],
    published: &'static [Published],
) -> Method {
    Method { data: Some(Source::PpiRenormalised), ..reported(name, sets, published) }
}

const PPI_PANELS: &[Panel] = &[Panel {
    id: "ppi",
    title: "Micro-F1, graphs that training has not seen",
    points_are: "data",
    axis: None,
    scores: &["micro_f1"],
    judged: Judged::BySeeds,
    points: &[Point { name: "PPI", x: 0.0, data: Source::Ppi, preset: "ppi", sets: &[], is_quick: true }],
    methods: &[
        reported(
            "IGNN",
            &[],
            &[
                published("PPI", "micro_f1", 97.6, PAPER),
                published("PPI", "micro_f1", 98.8, "TorchDEQ's port, best"),
            ],
        ),
        ppi_baseline(
            "GAT",
            &["model.kind=gat", "model.depth=3", "model.heads=4", "model.state=1024", "model.readout=linear"],
            &[published("PPI", "micro_f1", 97.3, PAPER)],
        ),
        ppi_baseline(
            "SSE",
            &["model.kind=sse", "model.skip=false", "model.state=256", "model.readout=linear"],
            &[published("PPI", "micro_f1", 83.6, PAPER)],
        ),
        ppi_baseline(
            "GCN",
            &["model.kind=gcn", "model.skip=false", "model.state=256", "model.readout=linear"],
            &[published("PPI", "micro_f1", 59.2, PAPER)],
        ),
        ppi_baseline(
            "MLP",
            &["model.kind=mlp", "model.skip=false", "model.state=256", "model.readout=linear"],
            &[published("PPI", "micro_f1", 46.2, PAPER)],
        ),
    ],
    quick: &["train.epochs=5"],
}];

const fn collection(name: &'static str, is_quick: bool) -> Point {
    Point { name, x: 0.0, data: Source::Collection(name), preset: "graphs", sets: &[], is_quick }
}

const GRAPH_PANELS: &[Panel] = &[Panel {
    id: "graphs",
    title: "Accuracy of graph classification, stratified folds",
    points_are: "data",
    axis: None,
    scores: &["accuracy"],
    judged: Judged::ByFolds(10, 3),
    points: &[
        collection("MUTAG", true),
        collection("PTC", false),
        collection("COX2", false),
        collection("PROTEINS", false),
        collection("NCI1", false),
    ],
    methods: &[reported(
        "IGNN",
        &[],
        &[
            with_deviation("MUTAG", 89.3, 6.7),
            with_deviation("PTC", 70.1, 5.6),
            with_deviation("COX2", 86.9, 4.0),
            with_deviation("PROTEINS", 77.7, 3.4),
            with_deviation("NCI1", 80.5, 1.9),
            published("MUTAG", "accuracy", 76.0, RERUN),
            published("PTC", "accuracy", 60.5, RERUN),
            published("COX2", "accuracy", 79.7, RERUN),
            published("PROTEINS", "accuracy", 76.5, RERUN),
            published("NCI1", "accuracy", 73.5, RERUN),
        ],
    )],
    quick: &["train.epochs=15"],
}];

const fn network(name: &'static str, data: &'static str, preset: &'static str) -> Point {
    Point { name, x: 0.0, data: Source::Relations(data), preset, sets: &[], is_quick: true }
}

const HETEROGENEOUS_PANELS: &[Panel] = &[Panel {
    id: "heterogeneous",
    title: "F1 on networks with several relations",
    points_are: "data",
    axis: None,
    scores: &["micro_f1", "macro_f1"],
    judged: Judged::BySeeds,
    points: &[
        network("ACM", "acm", "acm"),
        network("IMDB", "imdb", "imdb"),
        network("DBLP", "dblp-authors", "dblp"),
    ],
    methods: &[reported(
        "IGNN",
        &[],
        &[
            published("ACM", "micro_f1", 90.5, PAPER),
            published("ACM", "macro_f1", 90.6, PAPER),
            published("IMDB", "micro_f1", 65.5, PAPER),
            published("IMDB", "macro_f1", 65.5, PAPER),
            published("DBLP", "micro_f1", 73.8, "paper, on other data"),
            published("DBLP", "macro_f1", 75.1, "paper, on other data"),
        ],
    )],
    quick: &["train.epochs=30"],
}];

/// All experiments.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "chains",
        title: "Chains: how far information travels",
        about: "Directed chains of two classes; the class is told at the first node of a chain only, and every node has to know it.",
        panels: CHAIN_PANELS,
    },
    Experiment {
        name: "oversmoothing",
        title: "Chains: over-smoothing",
        about: "The chains again, with baselines that are deep: many layers must not make all nodes alike.",
        panels: OVERSMOOTHING_PANELS,
    },
    Experiment {
        name: "amazon",
        title: "Communities of a large graph",
        about: "Nodes without features, with one or several of 58 communities as labels; few of them are known. \
                By the top-k rule a node's predicted labels are its k highest scores, k the number that it truly has.",
        panels: AMAZON_PANELS,
    },
    Experiment {
        name: "ppi",
        title: "Proteins: graphs that training has not seen",
        about: "24 graphs with 121 labels a node; 20 train, 2 validate, 2 test.",
        panels: PPI_PANELS,
    },
    Experiment {
        name: "graphs",
        title: "Graph classification",
        about: "Molecules and proteins, each a graph with one label. A fold's epoch is chosen on the next fold (\"validation\"), or on its own \
                test part as the published code does (\"best test\").",
        panels: GRAPH_PANELS,
    },
    Experiment {
        name: "heterogeneous",
        title: "Networks with several relations",
        about: "Papers, films and authors that are related in two ways; both relations are in one equation.",
        panels: HETEROGENEOUS_PANELS,
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use ignn::config::IgnnConfig;

    #[test]
    fn names_are_unique_and_published_figures_have_their_point() {
        for (at, experiment) in EXPERIMENTS.iter().enumerate() {
            assert!(!EXPERIMENTS[..at].iter().any(|other| other.name == experiment.name));
            for panel in experiment.panels {
                for (at, point) in panel.points.iter().enumerate() {
                    assert!(!panel.points[..at].iter().any(|other| other.name == point.name));
                }
                assert!(panel.points.iter().any(|point| point.is_quick), "{}", panel.id);
                for published in panel.methods.iter().flat_map(|method| method.published) {
                    assert!(panel.points.iter().any(|point| point.name == published.point));
                    assert!(panel.scores.contains(&published.score) && published.value <= 100.0);
                }
            }
        }
    }

    #[test]
    fn every_setting_is_one_that_the_schema_knows() {
        for panel in EXPERIMENTS.iter().flat_map(|experiment| experiment.panels) {
            for (point, method) in
                panel.points.iter().flat_map(|point| panel.methods.iter().map(move |method| (point, method)))
            {
                let sets: Vec<String> =
                    [point.sets, method.sets, panel.quick].concat().iter().map(ToString::to_string).collect();
                let resolved = IgnnConfig::resolve(Some(point.preset), None, &sets);
                assert!(resolved.is_ok(), "{} {}: {}", point.name, method.name, resolved.unwrap_err());
            }
        }
    }
}
