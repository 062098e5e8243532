//! The page of one or several runs: curves of training and of the solves, time, scores, classes,
//! configuration, machine. It decides which curve goes where; `report::page` draws, and `tables`
//! has the tables.

use super::group::Group;
use super::tables;
use crate::report::page::{Axis, Chart, Page, Reference, Scale, Section, Series, StackedBars};
use crate::report::quantity;
use crate::solver::SolveInfo;
use crate::train::{EpochRecord, PartRecord};

/// Scores with a range above this are drawn between 0 and 1.
const WIDE: f64 = 0.3;

/// How several seeds are drawn in every chart.
const BAND: &str = "Lines are means over seeds; bands reach from the minimum to the maximum.";

/// A value of an epoch.
type Value<'a> = Box<dyn Fn(&EpochRecord) -> Option<f64> + 'a>;

/// The parts of a split, as records have them.
type PartOf = fn(&EpochRecord) -> Option<&PartRecord>;
const PARTS: [(&str, PartOf); 3] = [
    ("train", |record| record.train.as_ref()),
    ("validation", |record| record.validation.as_ref()),
    ("test", |record| record.test.as_ref()),
];

/// A value of the forward and of the adjoint solve, as two lines.
fn of_solves(value: fn(&SolveInfo) -> Option<f64>) -> [(&'static str, Value<'static>); 2] {
    [
        ("forward", Box::new(move |record| value(record.forward.as_ref()?))),
        ("adjoint", Box::new(move |record| value(record.adjoint.as_ref()?))),
    ]
}

/// The page of these groups; there is at least one.
pub fn page(title: &str, groups: &[Group]) -> Page {
    let runs: usize = groups.iter().map(|group| group.runs.len()).sum();
    let mut lead = match (groups, runs) {
        ([group], 1) => format!("The run in {}.", group.first().directory.path().display()),
        ([group], _) => format!("{runs} runs with different seeds: {}.", group.name),
        _ => format!(
            "{runs} runs compared: {}.",
            groups.iter().map(|g| g.name.as_str()).collect::<Vec<_>>().join(", ")
        ),
    };
    let unfinished =
        groups.iter().flat_map(|group| &group.runs).filter(|run| !run.saved.is_finished()).count();
    if unfinished > 0 {
        lead += &format!(
            " {} not finished: shown as far as it got.",
            quantity::plural(unfinished as u64, "run is", "runs are")
        );
    }
    let settings: Vec<_> = groups
        .iter()
        .map(|group| (&*group.name, &group.first().config, &*group.first().config_text))
        .collect();
    let mut page = Page::new(title, lead);
    page.section(tables::results(groups))
        .section(loss(groups))
        .section(scores(groups))
        .section(solves(groups))
        .section(posedness(groups))
        .section(time(groups))
        .section(tables::classes(groups))
        .section(tables::configuration(&settings))
        .section(tables::machine(groups));
    page
}

/// One chart with one line per part for a single group; for several groups one chart per part with
/// one line per group.
fn by_epoch(
    groups: &[Group],
    id: &str,
    title: &str,
    unit: &str,
    scale: Option<Scale>,
    parts: &[(&str, Value<'_>)],
) -> Vec<Chart> {
    let chart = |id: &str, title: &str, series: Vec<Series>| {
        let values = || series.iter().flat_map(|series| series.points.iter().map(|&(_, y)| y));
        let scale = scale.unwrap_or_else(|| Scale::fitting(values()));
        let mut chart = Chart::new(id, title, Axis::linear("epoch"), Axis::scaled(unit, scale));
        chart.series = series;
        chart
    };
    if let [group] = groups {
        let series = parts.iter().map(|(name, value)| group.series(name, value)).collect();
        return vec![chart(id, title, series)];
    }
    let charts = parts.iter().map(|(name, value)| {
        let series = groups.iter().map(|group| group.series(&group.name, value)).collect();
        let title = if parts.len() > 1 { format!("{title}: {name}") } else { title.to_string() };
        chart(&format!("{id}-{name}"), &title, series)
    });
    charts.collect()
}

fn has_seeds(groups: &[Group]) -> bool {
    groups.iter().any(|group| group.runs.len() > 1)
}

fn loss(groups: &[Group]) -> Section {
    let mut section = Section::new("loss", "Loss by epoch");
    if has_seeds(groups) {
        section.text(BAND);
    }
    let loss = |(name, part): (&'static str, PartOf)| -> (&str, Value<'_>) {
        (name, Box::new(move |record| Some(part(record)?.loss)))
    };
    let mut parts: Vec<(&str, Value<'_>)> = PARTS.into_iter().map(loss).collect();
    parts.push(("step", Box::new(|record| Some(record.loss))));
    let mut charts = by_epoch(groups, "chart-loss", "Loss", "mean loss, nats", None, &parts);
    if let Some(chart) = charts.last_mut() {
        chart.note = "\"step\" is the training loss of the step, with dropout; \
                      the others are without."
            .into();
    }
    let parts: [(&str, Value<'_>); 1] =
        [("gradient", Box::new(|record| Some(record.gradient_norm)))];
    let (title, unit) = ("Norm of the gradient before clipping", "global norm of the gradients");
    charts.extend(by_epoch(groups, "chart-gradient", title, unit, None, &parts));
    section.charts(&charts);
    section
}

fn scores(groups: &[Group]) -> Section {
    let mut section = Section::new("metrics", "Metrics by epoch");
    let mut charts: Vec<Chart> = Vec::new();
    for metric in groups[0].first().metrics() {
        let parts = PARTS.map(|(name, part)| -> (&str, Value<'_>) {
            (name, Box::new(move |record| Some(part(record)?.value(metric))))
        });
        let (name, title) = (metric.name(), tables::title(metric.name()));
        let id = format!("chart-{name}");
        let unit = format!("{title}, share of 1");
        let mut new = by_epoch(groups, &id, &title, &unit, Some(Scale::Linear), &parts);
        // Axes from 0 to 1, except for narrow ranges, where a curve would look flat.
        for chart in new.iter_mut().filter(|chart| !(f64::EPSILON..WIDE).contains(&spread(chart))) {
            chart.y = chart.y.clone().including(&[0.0, 1.0]);
        }
        // For single labels micro-F1 is the accuracy: the same curves are not drawn twice.
        let is_same = |old: &Chart, new: &Chart| {
            let points = |chart: &Chart| {
                chart.series.iter().map(|series| series.points.clone()).collect::<Vec<_>>()
            };
            points(old) == points(new)
        };
        let twin = charts
            .windows(new.len())
            .position(|old| old.iter().zip(&new).all(|(a, b)| is_same(a, b)));
        match twin {
            Some(at) => {
                charts[at].note =
                    format!("{title} is the same in every epoch and not drawn again.");
            }
            None => charts.extend(new),
        }
    }
    section.charts(&charts);
    section
}

/// The range of the values of a chart.
fn spread(chart: &Chart) -> f64 {
    let values = chart.series.iter().flat_map(|series| series.points.iter().map(|&(_, y)| y));
    let ends = values
        .filter(|y| y.is_finite())
        .fold((f64::INFINITY, 0.0f64), |(a, b), y| (a.min(y), b.max(y)));
    (ends.1 - ends.0).max(0.0)
}

fn solves(groups: &[Group]) -> Section {
    let mut section = Section::new("solves", "Sweeps and certified error by epoch");
    let parts = of_solves(|solve| Some(solve.sweeps as f64));
    let mut charts = by_epoch(
        groups,
        "chart-sweeps",
        "Sweeps of the solves",
        "sweeps per epoch",
        Some(Scale::Linear),
        &parts,
    );
    charts.iter_mut().for_each(|chart| chart.y = chart.y.clone().including(&[0.0]));
    let parts = of_solves(|solve| Some(solve.certified_error?.largest));
    let title = "Certified error";
    let unit = "largest distance of any entry from the solution";
    let mut errors = by_epoch(groups, "chart-error", title, unit, Some(Scale::Log), &parts);
    // Records of older versions lack it: their chart has no points and is left out.
    let parts = of_solves(|solve| Some(solve.certified_error?.relative));
    let (id, title, unit) =
        ("chart-relative-error", "Certified error, relative", "part of the state's largest entry");
    errors.extend(by_epoch(groups, id, title, unit, Some(Scale::Log), &parts));
    for chart in &mut errors {
        chart.note =
            "Includes the rounding of the sweeps. Epochs without a point have no certificate."
                .into();
    }
    charts.extend(errors);
    let parts = of_solves(|solve| Some(solve.relative_residual));
    charts.extend(by_epoch(
        groups,
        "chart-residual",
        "Residual where the solves stopped",
        "relative residual",
        Some(Scale::Log),
        &parts,
    ));
    let drawn = charts.iter().any(Chart::is_drawn);
    if drawn {
        section.charts(&charts)
    } else {
        section.text("No equilibrium was solved in these runs.")
    };
    section
}

fn posedness(groups: &[Group]) -> Section {
    let mut section = Section::new("contraction", "Contraction bound q against kappa");
    let parts: [(&str, Value<'_>); 2] = [
        ("q", Box::new(|record| Some(record.contraction))),
        ("radius of |W|", Box::new(|record| Some(record.weight_radius))),
    ];
    let mut charts = by_epoch(
        groups,
        "chart-contraction",
        "Contraction bound",
        "bound per sweep",
        Some(Scale::Linear),
        &parts,
    );
    let mut kappas: Vec<f64> =
        groups.iter().flat_map(|group| group.first().config.model.kappa.iter().copied()).collect();
    kappas.sort_by(f64::total_cmp);
    kappas.dedup();
    for chart in &mut charts {
        chart.references = kappas
            .iter()
            .map(|&kappa| Reference { name: format!("kappa {kappa}"), value: kappa })
            .collect();
        chart.references.push(Reference { name: "1".into(), value: 1.0 });
    }
    if charts.iter().all(|chart| chart.series.iter().all(|series| series.points.is_empty())) {
        return section;
    }
    section.text(
        "Below 1 the equation has exactly one solution, and every sweep reduces the distance to it \
         at least by the factor q. Training keeps the bound of |W| times the graph's spectral \
         radius within kappa; q is measured in the norm of the certificate and can be slightly \
         larger.",
    );
    section.charts(&charts);
    section
}

fn time(groups: &[Group]) -> Section {
    let mut section = Section::new("time", "Time by phase");
    let phases = groups[0].first().seconds();
    let mean = |group: &Group, at: usize| {
        group.statistic(|run| Some(run.seconds()[at].1)).map_or(0.0, |seconds| seconds.mean)
    };
    let bars = groups.iter().map(|group| {
        let parts: Vec<f64> = (0..phases.len()).map(|at| mean(group, at)).collect();
        let total = quantity::seconds(parts.iter().sum());
        (group.name.clone(), total, parts)
    });
    let bars: Vec<_> = bars.collect();
    let parts: Vec<String> = phases.iter().map(|(phase, _)| phase.to_string()).collect();
    section.table(&tables::seconds(&parts, &bars));
    let title = match has_seeds(groups) {
        true => "Seconds of all epochs by phase, mean over seeds",
        false => "Seconds of all epochs by phase",
    };
    section.bars(&StackedBars { id: "chart-time".into(), title: title.into(), parts, bars });
    let parts = of_solves(|solve| Some(solve.seconds));
    let charts = by_epoch(
        groups,
        "chart-solve-time",
        "Time of the solves",
        "seconds per epoch",
        None,
        &parts,
    );
    section.charts(&charts);
    section
}
