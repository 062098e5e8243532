//! A line chart as SVG that takes its colours from the page's style. Drawn here and not by a
//! plotting crate: see `ARCHITECTURE.md`.

use super::axis::{Axis, Fitted, Scale};
use super::html::{Anchor, Element, Html, element};
use super::labels::spread;

/// Width of the drawing in its own units; a phone shows it at about three quarters of that.
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 300.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 48.0;
/// Approximate width of a letter.
const LETTER: f64 = 7.0;
/// Approximate width of a letter of a name, which is bold, and larger on phones.
const NAME_LETTER: f64 = 8.2;
/// Height of a line of names.
const LINE: f64 = 15.0;
/// Longest name at the end of a line, in letters.
const NAME: usize = 20;
/// Number of points above which only the extremes of neighbouring points are drawn.
const POINTS: usize = 1000;
/// Number of line styles (colour and dashes) in the style sheet.
pub(super) const COLOURS: usize = 8;

/// A chart.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Its anchor is made from this; unique on the page.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines, in the order of their colours.
    pub series: Vec<Series>,
    /// Reference values.
    pub references: Vec<Reference>,
    /// A sentence below.
    pub note: String,
}

/// A line.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// Its name, written at its end.
    pub name: String,
    /// In the order of x; a value that is not finite is a gap.
    pub points: Vec<(f64, f64)>,
    /// A band around the line: x, minimum and maximum.
    pub band: Vec<(f64, f64, f64)>,
    /// Whether points are marked, each with its value as a tooltip; for short lines.
    pub is_marked: bool,
}

/// A line with its index and the points that can be shown.
type Drawn<'a> = (usize, &'a Series, Vec<(f64, f64)>);

/// A horizontal line across the chart.
#[derive(Clone, Debug)]
pub struct Reference {
    /// Its name.
    pub name: String,
    /// Its value on the vertical axis.
    pub value: f64,
}

impl Chart {
    /// A chart without lines yet.
    pub fn new(id: &str, title: &str, x: Axis, y: Axis) -> Self {
        let (id, title) = (id.into(), title.into());
        Self { id, title, x, y, series: Vec::new(), references: Vec::new(), note: String::new() }
    }

    fn shown(&self, series: &Series) -> Vec<(f64, f64)> {
        let shown = |&&(x, y): &&(f64, f64)| self.x.shows(x) && self.y.shows(y);
        series.points.iter().filter(shown).copied().collect()
    }

    /// Whether any line has a point, so that there is something to draw.
    pub fn is_drawn(&self) -> bool {
        self.element().is_some()
    }

    /// The SVG figure; `None` if no line has a point.
    pub(super) fn element(&self) -> Option<Element> {
        let drawn: Vec<Drawn<'_>> = self
            .series
            .iter()
            .enumerate()
            .map(|(at, series)| (at, series, self.shown(series)))
            .filter(|(_, _, points)| !points.is_empty())
            .collect();
        let points = || drawn.iter().flat_map(|(_, _, points)| points);
        let bands = || drawn.iter().flat_map(|(_, series, _)| &series.band);
        let x = self.x.fit(points().map(|&(x, _)| x), true)?;
        let ys = points().map(|&(_, y)| y).chain(bands().flat_map(|&(_, low, high)| [low, high]));
        let y = self.y.fit(ys.chain(self.references.iter().map(|line| line.value)), false)?;
        let frame = Frame::new(x, y, self);
        let mut body = Html::from(frame.grid(self));
        for (at, series, _) in &drawn {
            frame.band(*at, series).into_iter().for_each(|band| body.add(band));
        }
        for line in self.references.iter().filter(|line| self.y.shows(line.value)) {
            let at = frame.y(line.value);
            let drawn = element("line").set("class", "reference").set("data-reference", &line.name);
            body.add(straight(drawn, [frame.left, frame.right], [at, at]));
        }
        for (at, series, points) in &drawn {
            body.add(frame.line(*at, series, points, self));
        }
        body.add(frame.names(self, &drawn));
        Some(self.figure(&drawn, body))
    }

    fn figure(&self, drawn: &[Drawn<'_>], body: Html) -> Element {
        let mut descriptions: Vec<String> = drawn
            .iter()
            .filter_map(|(_, series, points)| {
                let (&(from, first), &(to, last)) = (points.first()?, points.last()?);
                let (first, last) = (short(first), short(last));
                Some(match points.len() {
                    1 => format!("{}: {last} at {to}", series.name),
                    _ => format!("{}: from {first} at {from} to {last} at {to}", series.name),
                })
            })
            .collect();
        descriptions.extend(
            self.references.iter().map(|line| format!("{}: {}", line.name, short(line.value))),
        );
        let axes = format!("{} against {}. ", self.y.label, self.x.label);
        let id = Anchor::new(&self.id);
        let title = element("title").set("id", format_args!("{id}-title")).text(&self.title);
        let description = element("desc").set("id", format_args!("{id}-desc"));
        let svg = element("svg")
            .set("viewBox", format_args!("0 0 {WIDTH} {HEIGHT}"))
            .set("role", "img")
            .set("aria-labelledby", format_args!("{id}-title {id}-desc"))
            .with(title)
            .with(description.text(axes + &descriptions.join("; ")))
            .with(body);
        let caption = element("figcaption").text(&self.title);
        let figure = element("figure").set("id", &id).with(caption).with(svg);
        match self.note.as_str() {
            "" => figure,
            note => figure.with(element("p").text(note)),
        }
    }
}

/// A line between two points.
fn straight(line: Element, x: [f64; 2], y: [f64; 2]) -> Element {
    line.at("x1", x[0]).at("x2", x[1]).at("y1", y[0]).at("y2", y[1])
}

/// The plotting area.
struct Frame {
    x: Fitted,
    y: Fitted,
    left: f64,
    right: f64,
}

impl Frame {
    fn new(x: Fitted, y: Fitted, chart: &Chart) -> Self {
        let widest = |names: &mut dyn Iterator<Item = usize>| names.max().unwrap_or(0) as f64;
        let ticks = widest(&mut y.ticks.iter().map(|(_, label)| label.chars().count()));
        let lines = chart.series.iter().map(|series| &series.name);
        let names = lines.chain(chart.references.iter().map(|line| &line.name));
        let names = widest(&mut names.map(|name| name.chars().count().min(NAME)));
        Self {
            x,
            y,
            left: (ticks * LETTER + 10.0).max(28.0),
            right: WIDTH - names * NAME_LETTER - 12.0,
        }
    }

    fn x(&self, value: f64) -> f64 {
        self.left + self.x.at(value) * (self.right - self.left)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - self.y.at(value) * (HEIGHT - BOTTOM - TOP)
    }

    /// Axes, ticks and their labels.
    fn grid(&self, chart: &Chart) -> Element {
        let Self { left, right, .. } = *self;
        let bottom = HEIGHT - BOTTOM;
        let text = |class: &str| element("text").set("class", class);
        let mut axes = element("g").set("class", "axes");
        for (value, label) in &self.y.ticks {
            let at = self.y(*value);
            let line = element("line").set("class", "grid");
            axes = axes
                .with(straight(line, [left, right], [at, at]))
                .with(text("end").at("x", left - 6.0).at("y", at + 4.5).text(label));
        }
        // Labels that would touch the one before are left out.
        let mut free = f64::NEG_INFINITY;
        for (value, label) in &self.x.ticks {
            let (at, half) = (self.x(*value), label.chars().count() as f64 * LETTER / 2.0);
            axes = axes.with(straight(element("line"), [at, at], [bottom, bottom + 4.0]));
            if at - half > free {
                axes = axes.with(text("middle").at("x", at).at("y", bottom + 18.0).text(label));
                free = at + half + LETTER;
            }
        }
        let middle = (left + right) / 2.0;
        axes.with(straight(element("line"), [left, right], [bottom, bottom]))
            .with(text("label").set("x", 2).set("y", 15).text(&chart.y.label))
            .with(text("label middle").at("x", middle).at("y", HEIGHT - 8.0).text(&chart.x.label))
    }

    fn band(&self, at: usize, series: &Series) -> Option<Element> {
        let is_log = self.y.scale == Scale::Log;
        let shown = |&&(x, low, high): &&(f64, f64, f64)| {
            x.is_finite() && low.is_finite() && high.is_finite() && (!is_log || low > 0.0)
        };
        let band: Vec<_> = series.band.iter().filter(shown).collect();
        let every = band.len().div_ceil(POINTS).max(1);
        let band: Vec<_> = band.into_iter().step_by(every).collect();
        if band.len() < 2 {
            return None;
        }
        let up = band.iter().map(|(x, _, high)| (self.x(*x), self.y(*high)));
        let down = band.iter().rev().map(|(x, low, _)| (self.x(*x), self.y(*low)));
        let path: Vec<String> = up.chain(down).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let class = format!("band s{}", at % COLOURS);
        Some(element("polygon").set("class", class).drawing("points", &path.join(" ")))
    }

    fn line(&self, at: usize, series: &Series, points: &[(f64, f64)], chart: &Chart) -> Html {
        let colour = at % COLOURS;
        let mut path = String::new();
        let mut is_open = false;
        for (x, y) in thinned(&series.points) {
            if !(chart.x.shows(x) && chart.y.shows(y)) {
                is_open = false;
                continue;
            }
            path +=
                &format!("{}{:.1},{:.1}", if is_open { "L" } else { "M" }, self.x(x), self.y(y));
            is_open = true;
        }
        let curve = element("path").set("class", format_args!("curve s{colour}"));
        let mut svg = Html::from(curve.set("data-series", &series.name).drawing("d", &path));
        if series.is_marked || points.len() == 1 {
            for &(x, y) in points {
                let tooltip = format!("{}: {} at {x}", series.name, short(y));
                let mark = element("circle")
                    .set("class", format_args!("mark s{colour}"))
                    .at("cx", self.x(x))
                    .at("cy", self.y(y))
                    .set("r", 3.5);
                svg.add(mark.with(element("title").text(tooltip)));
            }
        }
        svg
    }

    /// Names at the ends of the lines.
    fn names(&self, chart: &Chart, drawn: &[Drawn<'_>]) -> Html {
        let mut names: Vec<(String, String, f64, f64)> = Vec::new();
        for (at, series, points) in drawn {
            if let Some(&(x, y)) = points.last() {
                names.push((
                    format!("s{}", at % COLOURS),
                    series.name.clone(),
                    self.x(x),
                    self.y(y),
                ));
            }
        }
        for line in chart.references.iter().filter(|line| chart.y.shows(line.value)) {
            names.push(("reference".into(), line.name.clone(), self.right, self.y(line.value)));
        }
        let wanted: Vec<f64> = names.iter().map(|(_, _, _, y)| *y).collect();
        let places = spread(&wanted, LINE, TOP, HEIGHT - BOTTOM);
        let mut svg = Html::new();
        for ((class, name, x, y), place) in names.into_iter().zip(places) {
            let to = self.right + 9.0;
            // In the margin only: inside the chart it would look like data.
            if (place - y).abs() > 3.0 {
                let path = format!("M{:.1},{y:.1}L{:.1},{place:.1}", self.right + 1.0, to - 2.0);
                let leader = element("path").set("class", format_args!("leader {class}"));
                svg.add(leader.set("d", path));
            }
            // A line that ends early ends in a dot at the height of its name.
            if self.right - x > 3.0 {
                let dot = element("circle").set("class", format_args!("mark end {class}"));
                svg.add(dot.at("cx", x).at("cy", y).set("r", 2.5));
            }
            let text = element("text").set("class", format_args!("name {class}"));
            svg.add(text.at("x", to).at("y", place + 4.5).text(shortened(&name)));
        }
        svg
    }
}

/// A name that fits next to the chart.
fn shortened(name: &str) -> String {
    if name.chars().count() <= NAME {
        return name.into();
    }
    // Keep the end: names differ there more often than at the beginning.
    let rest: Vec<char> = name.chars().collect();
    format!("…{}", rest[rest.len() + 1 - NAME..].iter().collect::<String>())
}

/// A number with three or four digits.
fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        size if !(1e-3..1e5).contains(&size) => format!("{value:.2e}"),
        size if size >= 100.0 => format!("{value:.0}"),
        _ => format!("{value:.3}"),
    }
}

/// Reduces many points to the first, lowest, highest and last of each stretch, which keeps peaks.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= POINTS {
        return points.to_vec();
    }
    let mut thin = Vec::with_capacity(POINTS);
    for stretch in points.chunks(points.len().div_ceil(POINTS / 4)) {
        let by_value = |a: &&usize, b: &&usize| stretch[**a].1.total_cmp(&stretch[**b].1);
        let all: Vec<usize> = (0..stretch.len()).collect();
        let (least, most) = (all.iter().min_by(by_value), all.iter().max_by(by_value));
        let mut kept = vec![0, stretch.len() - 1];
        kept.extend(least.into_iter().chain(most));
        kept.sort_unstable();
        kept.dedup();
        thin.extend(kept.into_iter().map(|at| stretch[at]));
    }
    thin
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(series: Vec<Series>) -> Chart {
        let (x, y) = (Axis::linear("epoch"), Axis::linear("loss, nats"));
        Chart { series, ..Chart::new("loss", "Loss", x, y) }
    }

    fn line(name: &str, points: &[(f64, f64)]) -> Series {
        Series { name: name.into(), points: points.to_vec(), ..Series::default() }
    }

    #[test]
    fn lines_have_names_and_gaps() {
        let mut chart =
            chart(vec![line("a<b", &[(0.0, 1.0), (1.0, f64::NAN), (2.0, 0.5), (3.0, 0.25)])]);
        chart.references.push(Reference { name: "kappa".into(), value: 0.9 });
        let svg = Html::document(chart.element().unwrap());
        assert!(svg.contains("data-series=\"a&lt;b\"") && svg.contains(">a&lt;b</text>"), "{svg}");
        let path = svg.split(" d=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!((path.matches('M').count(), path.matches('L').count()), (2, 1), "{path}");
        assert!(
            svg.contains("data-reference=\"kappa\"") && svg.contains("loss, nats against epoch.")
        );
        assert!(svg.contains("a&lt;b: from 1.000 at 0 to 0.250 at 3; kappa: 0.900"), "{svg}");
    }

    #[test]
    fn nothing_but_data_is_drawn_in_the_chart() {
        // The second line ends early, and the names are too close to stand at the ends.
        let series = vec![
            line("long", &[(0.0, 1.0), (9.0, 0.5)]),
            line("short", &[(0.0, 1.0), (3.0, 0.51)]),
        ];
        let svg = Html::document(chart(series).element().unwrap());
        let right = svg.split("x2=\"").nth(1).unwrap().split('"').next().unwrap();
        let right: f64 = right.parse().unwrap();
        let leaders: Vec<&str> = svg.split("class=\"leader").skip(1).collect();
        assert!(!leaders.is_empty(), "{svg}");
        for leader in leaders {
            let start = leader.split(" d=\"M").nth(1).unwrap().split(',').next().unwrap();
            assert!(start.parse::<f64>().unwrap() > right, "{leader}");
        }
        assert_eq!(svg.matches("class=\"mark end").count(), 1, "{svg}");
    }

    #[test]
    fn a_chart_without_points_is_none() {
        assert!(!chart(Vec::new()).is_drawn());
        assert!(!chart(vec![line("a", &[(0.0, f64::NAN)])]).is_drawn());
    }

    #[test]
    fn long_lines_keep_their_peaks() {
        let mut points: Vec<(f64, f64)> = (0..10_000).map(|x| (f64::from(x), 0.0)).collect();
        points[5003].1 = 7.0;
        points[5004].1 = -7.0;
        let thin = thinned(&points);
        assert!(thin.len() <= POINTS + 4, "{}", thin.len());
        assert!(thin.contains(&(5003.0, 7.0)) && thin.contains(&(5004.0, -7.0)));
        assert!(thin.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert_eq!((thin[0], *thin.last().unwrap()), (points[0], points[9999]));
    }

    #[test]
    fn long_names_keep_their_end() {
        assert_eq!(shortened("seed-1"), "seed-1");
        let short = shortened("runs/chains/length-100/seed-1");
        assert!(
            short.chars().count() == NAME && short.starts_with('…') && short.ends_with("seed-1"),
            "{short}"
        );
    }
}
