"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const CARDS = 8, isRows = data.unit === "row";

  // Text from the data only ever becomes text, never markup.
  function el(tag, attributes, ...children) {
    return fill(document.createElement(tag), attributes, children);
  }
  function svg(tag, attributes, ...children) {
    return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
  }
  function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.filter(one => one !== null && one !== undefined));
    return node;
  }
  const bdi = text => el("bdi", {}, text);
  // A long name breaks after its own signs first.
  const name = text => el("bdi", {}, ...clip(text).split(/(?<=[_.\/:=-])/).flatMap(part => [part, el("wbr")]));

  function number(value, digits = 3) {
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size >= 1e6 || size < 1e-4) return value.toExponential(Math.min(digits - 1, 2)).replace("e+", "e").replace("-", "−");
    const places = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
    return value.toLocaleString("en", { maximumFractionDigits: places }).replace("-", "−");
  }
  const score = value => value === 0 ? "0" : Math.abs(value) < 1e-4 ? number(value) : value.toPrecision(3).replace("-", "−");
  const signed = value => (value >= .005 ? "+" : value <= -.005 ? "−" : "") + Math.abs(value).toFixed(2);

  const percent = share => share > 0 && share < .001 ? "< 0.1 %" : number(100 * share, share < .1 ? 2 : 3) + " %";
  const day = seconds => new Date(seconds * 1000).toISOString().slice(0, 10);

  function ticks(low, high, count) {
    const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find(one => one * power >= rough * .999);
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(+(k * step).toPrecision(12));
    return found;
  }
  function ticksInRatio(low, high) {
    const found = [];
    for (let k = Math.floor(Math.log10(low)); k <= Math.ceil(Math.log10(high)); k++)
      for (const one of high / low > 1000 ? [1] : high / low > 30 ? [1, 3] : [1, 2, 5])
        if (one * 10 ** k >= low && one * 10 ** k <= high) found.push(+(one * 10 ** k).toPrecision(12));
    return found.length > 1 ? found : ticks(low, high, 4);
  }
  function range(...lists) {
    let low = Infinity, high = -Infinity;
    for (const list of lists) for (const value of list) { if (value < low) low = value; if (value > high) high = value; }
    return high > low ? [low, high] : [low - .5, low + .5];
  }

  // The viewBox is as wide as the place is, so that letters have their own size on a phone too.
  function canvas(place, height, label, draw) {
    const width = Math.max(260, Math.round(place.clientWidth || 900));
    const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
    draw(root, width, height);
    place.replaceChildren(root);
  }

  function drawScores() {
    const { edges, counts, in_ratio: inRatio, cut } = data.histogram;
    const place = document.getElementById("scores");
    const isBelow = k => cut !== null && (edges[k] + edges[k + 1]) / 2 < cut;
    const below = counts.reduce((sum, count, k) => sum + (isBelow(k) ? count : 0), 0);
    canvas(place, 240, `Histogram of the scores; ${below} are flagged.`, (root, width, height) => {
      const left = 44, right = width - 6, top = 20, bottom = height - 38;
      const scale = inRatio ? Math.log : value => value;
      const [low, high] = [scale(edges[0]), scale(edges[edges.length - 1])];
      const x = value => left + (scale(value) - low) / (high - low) * (right - left);
      const most = Math.max(...counts), y = count => bottom - Math.sqrt(count / most) * (bottom - top);
      let lowest = Infinity;
      for (const count of new Set([0, .05, .25, .55, .98].map(share => rounded(share * most)))) {
        if (lowest - y(count) < 16) continue;
        lowest = y(count);
        root.append(svg("line", { class: "grid", x1: left, x2: right, y1: y(count), y2: y(count) }));
        root.append(svg("text", { x: left - 6, y: y(count) + 4, "text-anchor": "end" }, compact(count)));
      }
      counts.forEach((count, k) => {
        if (!count) return;
        const tall = Math.max(2, bottom - y(count)), a = x(edges[k]), b = x(edges[k + 1]);
        root.append(svg("rect", {
          class: isBelow(k) ? "odd" : "usual",
          x: a + .4, width: Math.max(.8, b - a - .8), y: bottom - tall, height: tall,
        }, svg("title", {}, `${number(edges[k])} to ${number(edges[k + 1])}: ${count.toLocaleString("en")}`)));
      });
      root.append(svg("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }));
      let last = -Infinity;
      for (const value of inRatio ? ticksInRatio(edges[0], edges[edges.length - 1]) : ticks(low, high, 6)) {
        if (x(value) - last < 44) continue;
        last = x(value);
        root.append(svg("text", { x: last, y: bottom + 16, "text-anchor": "middle" }, number(value)));
      }
      root.append(svg("text", { x: right, y: bottom + 33, "text-anchor": "end" }, inRatio ? "score (logarithmic)" : "score"));
      if (cut !== null && scale(cut) >= low && scale(cut) <= high) {
        const at = x(cut), flip = at > (left + right) / 2;
        root.append(svg("line", { class: "threshold", x1: at, x2: at, y1: top - 10, y2: bottom }));
        root.append(svg("text", { class: "strong", x: at + (flip ? -6 : 6), y: top - 4, "text-anchor": flip ? "end" : "start" }, `threshold ${number(cut)}`));
      }
    });
  }
  function rounded(count) {
    const power = 10 ** Math.floor(Math.log10(Math.max(count, 1)));
    return power * Math.floor(count / power);
  }
  const compact = count => count >= 1e6 ? number(count / 1e6) + " M" : count >= 1e4 ? number(count / 1e3) + " k" : count.toLocaleString("en");

  const axes = [data.map.start[0], data.map.start.at(-1)];
  const isIndicator = axis => data.map.kinds[axis] === "indicator", isTime = axis => data.map.kinds[axis] === "time";
  // Zeros and ones lie on top of each other: each is moved a little, the same one always by as much.
  const spread = (axis, k) => isIndicator(axis) ? ((k * .618034) % 1 - .5) * .3 : 0;
  // Places on an axis, from 0 to 1. Where a few lie very far out, the ends are squeezed, or all others would be one line.
  function scaleOf(axis) {
    const values = [...data.map.top[axis], ...data.map.sample[axis]].sort((a, b) => a - b), at = share => values[Math.round(share * (values.length - 1))];
    const [low, high] = isIndicator(axis) ? [-.15, 1.15] : range(values), middle = at(.5), wide = at(.9) - at(.1);
    const isSqueezed = wide > 0 && high - low > 8 * wide && !isTime(axis);
    const bend = isSqueezed ? value => Math.asinh((value - middle) / wide * 2) : value => value;
    const place = value => (bend(value) - bend(low)) / (bend(high) - bend(low));
    const marks = count => {
      if (isIndicator(axis)) return [0, 1];
      if (!isSqueezed) return ticks(low, high, isTime(axis) ? count * .7 : count);
      const found = [];
      for (const value of [...ticks(low, high, 4), ...ticks(middle - 3 * wide, middle + 3 * wide, 5)])
        if (value >= low && value <= high && found.every(other => Math.abs(place(other) - place(value)) > .7 / count)) found.push(value);
      return found;
    };
    return { at: place, marks, note: isSqueezed ? " (ends squeezed)" : "" };
  }
  function drawMap() {
    if (axes[0] !== axes[1] && axes.every(isIndicator)) return drawShares();
    const { axes: names, top, sample } = data.map, flagged = data.flagged;
    const place = document.getElementById("map"), [i, j] = axes;
    const tall = Math.min(460, Math.max(300, place.clientWidth * .6));
    canvas(place, tall, `Map: ${names[i]} and ${names[j]} of the oddest and of a sample.`, (root, width, height) => {
      const left = isTime(j) ? 78 : 52, right = width - 10, upper = 22, bottom = height - 40;
      const across = scaleOf(i), up = scaleOf(j);
      const x = value => left + 8 + across.at(value) * (right - left - 16), y = value => bottom - 8 - up.at(value) * (bottom - upper - 16);
      const text = (axis, value) => isTime(axis) ? day(value) : number(value);
      for (const value of across.marks(width / 110)) {
        root.append(svg("line", { class: "grid", x1: x(value), x2: x(value), y1: upper, y2: bottom }));
        root.append(svg("text", { x: x(value), y: bottom + 16, "text-anchor": "middle" }, text(i, value)));
      }
      for (const value of up.marks(height / 70)) {
        root.append(svg("line", { class: "grid", x1: left, x2: right, y1: y(value), y2: y(value) }));
        root.append(svg("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, text(j, value)));
      }
      root.append(svg("text", { x: right, y: bottom + 33, "text-anchor": "end" }, clip(names[i]) + across.note));
      root.append(svg("text", { x: left - 6, y: upper - 8 }, "↑ " + clip(names[j]) + up.note));
      const inSample = k => [sample[i][k] + spread(i, k), sample[j][k] + spread(j, 3 * k)];
      const inTop = k => [top[i][k] + spread(i, k), top[j][k] + spread(j, 3 * k)];
      const dot = ([u, v], kind, r) => svg("circle", { class: kind, cx: x(u).toFixed(1), cy: y(v).toFixed(1), r });
      flagged.forEach((odd, k) => { if (!odd) root.append(dot(inSample(k), "faint", 2.2)); });
      flagged.forEach((odd, k) => { if (odd) root.append(dot(inSample(k), "odd", 2.2)); });
      for (let k = data.top.length - 1; k >= 0; k--) {
        const one = data.top[k], mark = dot(inTop(k), one.flagged ? "odd" : k < CARDS ? "usual" : "faint", k < CARDS ? 5 : one.flagged ? 3 : 2.2);
        if (k >= CARDS) { root.append(mark); continue; }
        root.append(svg("a", { href: "#odd-" + k, "aria-label": `${one.rank}. ${one.label}` }, svg("title", {}, `${one.rank}. ${one.label}`), mark));
      }
      let written = [];
      for (let k = 0; k < Math.min(CARDS, data.top.length); k++) {
        const [u, v] = inTop(k), at = [x(u), y(v)];
        if (written.some(other => Math.hypot(other[0] - at[0], other[1] - at[1]) < 15)) continue;
        written.push(at);
        root.append(svg("text", { class: "strong", x: at[0] + (at[0] > right - 24 ? -8 : 8), y: at[1] + 4, "text-anchor": at[0] > right - 24 ? "end" : "start" }, String(data.top[k].rank)));
      }
    });
  }

  // Two features of zeros and ones: how often each combination is found.
  function drawShares() {
    const { axes: names, top, sample } = data.map, [i, j] = axes, counts = { odd: [0, 0, 0, 0], usual: [0, 0, 0, 0] };
    data.flagged.forEach((odd, k) => counts[odd ? "odd" : "usual"][2 * sample[i][k] + sample[j][k]]++);
    data.top.forEach((one, k) => counts[one.flagged ? "odd" : "usual"][2 * top[i][k] + top[j][k]]++);
    const shares = Object.fromEntries(Object.entries(counts).map(([kind, own]) => [kind, own.map(count => count / Math.max(1, own.reduce((a, b) => a + b)))]));
    const place = document.getElementById("map");
    canvas(place, 4 * 58, `Bars: how often ${names[i]} and ${names[j]} are 0 or 1.`, (root, width) => {
      [0, 1, 2, 3].forEach(k => {
        root.append(svg("text", { class: "strong", x: 0, y: 58 * k + 14 }, `${clip(names[i], 30)}: ${k > 1 ? "yes" : "no"}, ${clip(names[j], 30)}: ${k % 2 ? "yes" : "no"}`));
        ["odd", "usual"].forEach((kind, line) => shareBar(root, kind, shares[kind][k], 58 * k + 20 + 14 * line, width));
      });
    });
  }
  function shareBar(root, kind, share, y, width) {
    const wide = share * (width - 44);
    root.append(svg("rect", { class: kind, x: 0, y, width: Math.max(share ? 1 : 0, wide).toFixed(1), height: 11 }));
    root.append(svg("text", { x: wide + 5, y: y + 10 }, percent(share)));
  }

  function clip(text, most = 40) {
    const letters = [...text], half = Math.floor((most - 1) / 2);
    return letters.length > most ? letters.slice(0, most - 1 - half).join("") + "…" + letters.slice(-half).join("") : text;
  }

  function axisControls() {
    const place = document.getElementById("axes");
    if (!place || data.map.axes.length < 2) return;
    ["across", "up"].forEach((name, which) => {
      const options = data.map.axes.map((axis, k) => el("option", { value: k, selected: k === axes[which] }, clip(axis, 22)));
      const select = el("select", { id: "axis-" + which, onchange: event => { axes[which] = +event.target.value; drawMap(); } }, ...options);
      place.append(el("label", {}, name, select));
    });
  }

  function card(k, level) {
    const one = data.top[k];
    const facts = [`score ${score(one.score)}`];
    if (one.odd) facts.push(one.odd);
    if (one.row !== null) facts.push(`row ${one.row}`);
    if (isRows && one.total > 0) facts.push(`${number(Math.exp(one.total), 2)} × less similar than typical`);
    if (!isRows) facts.push(points(one.size) + (one.sampled < one.size ? `, ${one.sampled} of them shown` : ""));
    if (one.missing) facts.push(isRows ? `missing values: ${one.missing}` : `rows with missing values: ${one.missing}`);
    return el("article", {},
      el(level, {}, el("span", {}, String(one.rank)), bdi(one.label)),
      el("p", { class: "sub" }, one.flagged ? el("span", { class: "tag" }, "flagged") : "not flagged", " · " + facts.join(" · ")),
      one.values.length ? el("p", { class: "kept" }, ...one.values.flatMap((value, c) => [el("span", {}, bdi(data.kept[c]), " ", el("b", {}, bdi(value || "–"))), " "])) : null,
      one.words ? el("p", { class: "words" }, bdi(one.words)) : null,
      isRows ? rowReasons(one) : groupReasons(one));
  }
  const points = size => size.toLocaleString("en") + (size === 1 ? " row" : " rows");

  function rowReasons(one) {
    const most = Math.max(...one.why.map(([, part]) => part), 1e-9);
    const rows = one.why.filter(([, part], k) => k < 4 || part > .02 * most).map(([j, part, text, usual]) => {
      const wide = part > 0 ? Math.max(1, part / most * 100) : 0, column = data.columns[j];
      return el("tr", {},
        el("td", { class: "name", title: column }, name(column), svg("svg", { viewBox: "0 0 100 5", preserveAspectRatio: "none", "aria-hidden": "true" },
          svg("rect", { class: "odd", x: 0, y: 0, height: 5, width: wide }))),
        el("td", { class: "number part" }, signed(part)),
        el("td", { class: "number value", title: text }, bdi(clip(text, 24))),
        typeof usual === "number" ? el("td", { class: "usual-range" }, percent(usual) + " of rows")
          : el("td", { class: "usual-range", title: `nine in ten rows: ${number(usual[0])} to ${number(usual[2])}; median ${number(usual[1])}` }, strip(...usual)));
    });
    return el("table", { class: "reasons", "aria-label": "What each column adds" },
      el("thead", {}, el("tr", {}, el("th", { class: "name", scope: "col" }, "column"), el("th", { class: "number part", scope: "col" }, "adds"),
        el("th", { class: "number value", scope: "col" }, "value"), el("th", { class: "usual-range", scope: "col" }, "usual"))),
      el("tbody", {}, ...rows));
  }

  function strip(low, middle, high, value) {
    const [a, b] = range([low, high, value]), x = one => 5 + (one - a) / (b - a) * 90;
    return svg("svg", { viewBox: "0 0 100 14", preserveAspectRatio: "xMinYMid meet", role: "img", "aria-label": value < low ? "below the usual range" : value > high ? "above the usual range" : "within the usual range" },
      svg("rect", { class: "soft", x: x(low), width: Math.max(1.5, x(high) - x(low)), y: 4, height: 6, rx: 2 }),
      svg("rect", { class: "usual", x: x(middle) - .75, width: 1.5, y: 2, height: 10 }),
      svg("circle", { class: "odd", cx: x(value), cy: 7, r: 4 }));
  }

  function groupReasons(one) {
    const pictures = one.why.map(([j, part, values]) => {
      const usual = data.population[j], feature = data.features[j];
      const way = part < 0 ? "lower" : part > 0 ? "higher" : "no different";
      const picture = typeof values === "number" ? shares(values, usual, feature) : overlay(j, values, usual, `${feature}: ${way} in this group, ${signed(part)}.`);
      return el("figure", {}, el("figcaption", { title: feature }, name(feature), el("b", {}, signed(part))), ...picture);
    });
    const numbers = one.why.filter(([, , values]) => typeof values !== "number");
    return el("div", { class: "pictures" }, ...pictures, numbers.length > 1 ? together(...numbers) : null);
  }
  function shares(own, usual, feature) {
    const root = svg("svg", { viewBox: "0 0 220 61", role: "img", "aria-label": `${feature}: ${percent(own)} of the rows of the group, ${percent(usual)} of the population.` });
    shareBar(root, "outline", own, 14, 220);
    shareBar(root, "soft", usual, 34, 220);
    return [root, ends("share of the rows", "")];
  }

  function together([i, , u], [j, , v]) {
    const width = 400, height = 141, bottom = 140;
    const [a, b] = range(quantiles(data.population[i]), quantiles(u)), [c, d] = range(quantiles(data.population[j]), quantiles(v));
    const names = [clip(data.features[i]), clip(data.features[j])];
    const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Points of the group and of the population: ${names[0]} across, ${names[1]} up.` });
    const within = (value, low, high) => Math.min(1, Math.max(0, (value - low) / (high - low)));
    const dots = (xs, ys, kind, r) => xs.forEach((value, k) => root.append(svg("circle", { class: kind, r, cx: (4 + within(value, a, b) * (width - 8)).toFixed(1), cy: (bottom - 4 - within(ys[k], c, d) * (bottom - 8)).toFixed(1) })));
    root.append(svg("line", { class: "axis", x1: 0, x2: width, y1: bottom, y2: bottom }));
    dots(data.population[i], data.population[j], "faint", 1.8);
    dots(u, v, "odd", 2.4);
    return el("figure", { class: "wide" }, ends(`↑ ${names[1]}, ${value(j, c)} to ${value(j, d)}`, ""), root, ends("", `${names[0]}, ${value(i, a)} to ${value(i, b)} →`));
  }
  const value = (feature, at) => data.times.includes(feature) ? day(at) : number(at);

  function overlay(j, values, usual, label) {
    const width = 220, height = 61, bottom = 60, n = 22;
    const sorted = [...usual].sort((a, b) => a - b), at = share => sorted[Math.round(share * (sorted.length - 1))];
    // The middle of the population sets the scale; what lies beyond is counted at its ends.
    const [a, b] = range([at(.005), at(.995), ...quantiles(values)]);
    const bars = list => {
      const counts = new Array(n).fill(0);
      for (const value of list) counts[Math.min(n - 1, Math.max(0, Math.floor((value - a) / (b - a) * n)))]++;
      return counts.map(count => count / list.length);
    };
    const all = bars(usual), own = bars(values), most = Math.max(...all, ...own);
    const x = k => k / n * width, y = share => bottom - share / most * (bottom - 4);
    const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
    all.forEach((share, k) => { if (share) root.append(svg("rect", { class: "soft", x: x(k), width: width / n - .6, y: y(share), height: bottom - y(share) })); });
    let path = `M0 ${bottom}`;
    own.forEach((share, k) => { path += `V${y(share).toFixed(1)}H${x(k + 1).toFixed(1)}`; });
    root.append(svg("path", { class: "outline", d: path + `V${bottom}Z` }));
    root.append(svg("line", { class: "axis", x1: 0, x2: width, y1: bottom, y2: bottom }));
    return [root, ends(value(j, a), value(j, b))];
  }
  const ends = (first, last) => el("div", { class: "ends" }, el("span", {}, first), el("span", {}, last));
  function quantiles(values) {
    const sorted = [...values].sort((a, b) => a - b);
    return [sorted[Math.round(.02 * (sorted.length - 1))], sorted[Math.round(.98 * (sorted.length - 1))]];
  }

  // The table is there without a script, which only sorts, filters, shortens and saves it.
  const FEW = 20;
  const table = document.getElementById("table"), body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
  const rows = [...body.rows], collator = new Intl.Collator("en", { numeric: true });
  const cell = (row, c) => row.cells[c].dataset.value ?? row.cells[c].textContent;
  const state = { column: 0, descending: false, words: "", only: false, least: 0, all: false };
  const sizeColumn = isRows ? null : 2, opened = new Map();
  const placeOf = new Map(rows.map((row, k) => [row, k])), texts = rows.map(row => (cell(row, 1) + row.textContent).toLowerCase());

  function matching() {
    const { column: c, descending } = state;
    const chosen = rows.filter((row, k) => (!state.only || row.classList.contains("flagged")) && texts[k].includes(state.words)
      && (isRows || +cell(row, sizeColumn) >= state.least));
    return chosen.sort((a, b) => compare(cell(a, c), cell(b, c)) * (descending ? -1 : 1) || placeOf.get(a) - placeOf.get(b));
  }
  const compare = (u, v) => u !== "" && v !== "" && isFinite(u) && isFinite(v) ? u - v : collator.compare(u, v);

  function drawTable() {
    const chosen = matching(), shown = state.all || state.words ? chosen : chosen.slice(0, FEW), more = document.getElementById("all");
    heads.forEach((head, c) => head.setAttribute("aria-sort", state.column !== c ? "none" : state.descending ? "descending" : "ascending"));
    body.replaceChildren(...shown.flatMap(row => opened.has(row) ? [row, opened.get(row)] : [row]));
    if (!shown.length) body.append(el("tr", { class: "empty" }, el("td", { colspan: heads.length }, "Nothing found.")));
    document.getElementById("count").textContent = `${shown.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")} shown`;
    more.parentNode.hidden = !state.all && shown.length === chosen.length || chosen.length <= FEW;
    more.textContent = state.all ? `Show the first ${FEW}` : `Show all ${chosen.length.toLocaleString("en")}`;
  }
  heads.forEach((head, c) => head.replaceChildren(el("button", { type: "button", onclick: () => {
    Object.assign(state, { column: c, descending: state.column === c && !state.descending });
    drawTable();
  } }, ...head.childNodes)));
  rows.slice(0, data.top.length).forEach((row, k) => {
    const label = row.querySelector(".label"), button = el("button", { type: "button", title: "why", "aria-expanded": "false" }, ...label.childNodes);
    row.removeAttribute("id");
    label.append(button);
    button.addEventListener("click", () => {
      if (opened.has(row)) { opened.get(row).remove(); opened.delete(row); }
      else { opened.set(row, el("tr", { class: "details" }, el("td", { class: "more", colspan: heads.length }, card(k, "h3")))); row.after(opened.get(row)); }
      button.setAttribute("aria-expanded", String(opened.has(row)));
    });
  });
  function save() {
    const quoted = text => /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    const lines = [heads.map(head => head.textContent), ...matching().map(row => heads.map((_, c) => cell(row, c)))];
    const address = URL.createObjectURL(new Blob([lines.map(line => line.map(quoted).join(",") + "\r\n").join("")], { type: "text/csv" }));
    el("a", { href: address, download: `odd ${data.unit}s.csv` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }

  document.getElementById("without-script").remove();
  document.querySelectorAll("[hidden]").forEach(one => { one.hidden = false; });
  axisControls();
  drawScores();
  drawMap();
  const cards = document.getElementById("cards");
  for (let k = 0; k < Math.min(CARDS, data.top.length); k++) {
    const one = card(k, "h3");
    one.id = "odd-" + k;
    cards.append(one);
  }
  drawTable();
  document.getElementById("search").addEventListener("input", event => { state.words = event.target.value.trim().toLowerCase(); drawTable(); });
  document.getElementById("only").addEventListener("change", event => { state.only = event.target.checked; drawTable(); });
  document.getElementById("all").addEventListener("click", () => { state.all = !state.all; drawTable(); });
  document.getElementById("export").addEventListener("click", save);
  const size = document.getElementById("size");
  if (size) size.addEventListener("input", () => { state.least = +size.value || 0; drawTable(); });
  let waiting = 0;
  addEventListener("resize", () => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(() => { drawScores(); drawMap(); }); });
  addEventListener("beforeprint", () => { drawScores(); drawMap(); });
})();
