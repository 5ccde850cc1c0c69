// The pictures: how close renewals were, who led when, and the plan. Drawn from numbers; what they show is said in words beside them.

import { draw } from "./dom.js";
import { REASONS, both, named, plural, short } from "./words.js";

const HEIGHT = 22;
const LOW_SHARE = 1 / 3; // of the usual margin: as the board judges it

export function sparkline(margins, width = 84, height = HEIGHT) {
  const top = Math.max(...margins, 0.001);
  const step = margins.length > 1 ? (width - 6) / (margins.length - 1) : 0;
  const y = (margin) => height - 2 - (margin / top) * (height - 5);
  const points = margins.map((margin, at) => [3 + at * step, y(margin)]);
  const line = points.map(([x, up], at) => `${at ? "L" : "M"}${x.toFixed(1)} ${up.toFixed(1)}`).join("");
  const [last_x, last_y] = points.at(-1);
  const low = margins.map((margin, at) => [margin, at]).filter(([margin]) => margin < LOW_SHARE * top);
  const limit = y(LOW_SHARE * top).toFixed(1);
  return draw(
    "svg",
    { class: "spark", width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
    draw("path", { class: "spark-limit", d: `M0 ${limit}H${width}` }),
    draw("path", { class: "spark-fill", d: `${line}L${last_x.toFixed(1)} ${height - 2}L3 ${height - 2}Z` }),
    draw("path", { class: "spark-line", d: line }),
    ...low.map(([, at]) => draw("circle", { class: "spark-low", cx: points[at][0].toFixed(1), cy: points[at][1].toFixed(1), r: 2 })),
    draw("circle", { class: "spark-last", cx: last_x.toFixed(1), cy: last_y.toFixed(1), r: 2.2 }),
  );
}

// Who led when. A tenure is a bar, dark and light in turn; nobody is hatched; what was refused is a triangle below.
export function strip(row, now_ms, span_s, width, height = HEIGHT) {
  const from_ms = now_ms - span_s * 1000;
  const x = (at_ms) => Math.max(0, Math.min(width, ((at_ms - from_ms) / (span_s * 1000)) * width));
  const parts = [];
  const bar = height - 7;
  let gaps = 0;
  let tenures = 0;
  row.timeline.forEach((stint, at) => {
    const begins_ms = stint.from === null ? from_ms : Date.parse(stint.from);
    const next = row.timeline[at + 1];
    const next_ms = next === undefined || next.from === null ? now_ms : Date.parse(next.from);
    const ends_ms = stint.to === null ? next_ms : Math.min(Date.parse(stint.to), Math.max(next_ms, begins_ms));
    const [left, right] = [x(begins_ms), x(ends_ms)];
    if (next_ms >= from_ms && x(next_ms) - right > 0 && stint.to !== null && !next?.unrecorded) {
      gaps += 1;
      const gap = Math.max(2, x(next_ms) - right);
      const by_choice = stint.reason === "resigned";
      parts.push(titled(draw("rect", { class: by_choice ? "gap calm" : "gap", x: fixed(right), y: 2, width: fixed(gap), height: bar }), `nobody led for ${short((next_ms - ends_ms) / 1000)}`));
    }
    if (right <= 0 && ends_ms < from_ms) return;
    tenures += 1;
    const wide = Math.max(1.5, right - left - 0.75);
    const why = stint.to === null ? "in office" : REASONS[stint.reason] ?? stint.reason;
    parts.push(titled(draw("rect", { class: `stint tone-${stint.token % 2}`, x: fixed(left), y: 2, width: fixed(wide), height: bar, rx: 1.5 }), `token ${stint.token}: ${stint.holder}, ${why}`));
    if (wide > 84) {
      const label = draw("text", { class: `stint-name on-${stint.token % 2}`, x: fixed(left + 5), y: bar - 2.5 });
      const fits = Math.floor((wide - 8) / 6.2);
      const name = named(stint.holder);
      label.append(name.length > fits ? `${name.slice(0, fits - 1)}…` : name);
      parts.push(label);
    }
  });
  const marks = row.marks.filter((one) => Date.parse(one.at) >= from_ms);
  for (const one of marks) {
    const at = fixed(x(Date.parse(one.at)));
    const shape = one.kind === "refused" ? `M${at} ${height - 7}l4 7h-8z` : `M${at} 0v${height - 5}`;
    parts.push(titled(draw("path", { class: `mark ${one.kind === "refused" ? "refused" : "noted"}`, d: shape }), `${both(Date.parse(one.at))}: ${one.text}`));
  }
  const refused = marks.filter((one) => one.kind === "refused").length;
  const label = `${plural(tenures, "tenure")}, ${plural(gaps, "gap")}${refused ? `, ${plural(refused, "refused write")}` : ""}`;
  return draw("svg", { class: "strip", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, draw("rect", { class: "ground", x: 0, y: 2, width, height: bar, rx: 1.5 }), ...parts);
}

// The plan as a bar up to the time in which work has to go on, and each measured time as a dot above it.
export function planned(plan, width, height = 64) {
  const parts = ["detect", "elect", "load", "warm", "discover"];
  const longest = Math.max(plan.rto_s, plan.total_s, ...plan.measured.map((one) => one.gap_s));
  const x = (seconds) => (seconds / (longest * 1.04)) * (width - 2) + 1;
  const drawn = [];
  let from_s = 0;
  for (const part of parts) {
    const lasts_s = plan[`${part}_s`];
    const wide = Math.max(0, x(from_s + lasts_s) - x(from_s) - 1);
    drawn.push(titled(draw("rect", { class: `part part-${part}`, x: fixed(x(from_s)), y: 30, width: fixed(wide), height: 16 }), `${part}: ${lasts_s} s`));
    from_s += lasts_s;
  }
  drawn.push(draw("path", { class: "rto", d: `M${fixed(x(plan.rto_s))} 10V52` }));
  const label = draw("text", { class: "rto-name", x: fixed(x(plan.rto_s)), y: 62, "text-anchor": "end" });
  label.append(`limit ${short(plan.rto_s)}`);
  plan.measured.forEach((one, at) => {
    drawn.push(titled(draw("circle", { class: one.gap_s > plan.rto_s ? "dot late" : "dot", cx: fixed(x(one.gap_s)), cy: 24 - (at % 3) * 7, r: 3 }), `${one.election}, token ${one.token}: ${short(one.gap_s)} without a leader`));
  });
  return draw("svg", { class: "planned", width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, ...drawn, label);
}

const fixed = (number) => number.toFixed(1);

function titled(shape, text) {
  const title = draw("title");
  title.append(text);
  shape.append(title);
  return shape;
}
