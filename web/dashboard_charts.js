// Two charts over the time that the page is open.
import {byId, colours, count, rate} from './dashboard_format.js';

const MOST_POINTS = 600;

// Means of equal times. When it is full, each two points become one: so it covers the whole time
// in bounded memory.
export class Series {
  constructor(names) {
    this.names = names;
    this.points = [];
    this.every = 1;  // Seconds of a point.
    this.sums = null;
  }

  add(at, values) {
    if (this.sums && at - this.sums.at >= this.every) this.flush();
    if (!this.sums) this.sums = {at, count: 0, values: this.names.map(() => 0)};
    ++this.sums.count;
    values.forEach((value, i) => {
      this.sums.values[i] += value;
    });
  }

  flush() {
    const {at, count: many, values} = this.sums;
    this.points.push({at, values: values.map((value) => value / many)});
    this.sums = null;
    if (this.points.length < MOST_POINTS) return;
    const halves = [];
    for (let i = 0; i + 1 < this.points.length; i += 2) {
      const [one, two] = [this.points[i], this.points[i + 1]];
      halves.push({at: one.at, values: one.values.map((value, k) => (value + two.values[k]) / 2)});
    }
    this.points = halves;
    this.every *= 2;
  }
}

function clockOf(at, withSeconds) {
  const format = {hour: '2-digit', minute: '2-digit'};
  if (withSeconds) format.second = '2-digit';
  return new Date(at * 1000).toLocaleTimeString('en-GB', format);
}

class LineChart {
  constructor(id, series, kinds, unit, stepped) {
    this.canvas = byId(id);
    this.series = series;
    this.kinds = kinds;
    this.unit = unit;
    this.stepped = stepped;
    this.chart = null;
    this.short = true;  // The time that it covers.
  }

  make() {
    if (!window.Chart) return;
    if (this.chart) this.chart.destroy();
    const colour = colours(['ink', 'muted', 'line', ...this.kinds.map((kind) => kind.colour)]);
    this.chart = new window.Chart(this.canvas, {
      type: 'line',
      data: {
        datasets: this.kinds.map((kind) => ({
          label: kind.name, data: [], borderColor: colour[kind.colour],
          backgroundColor: `${colour[kind.colour]}26`, borderWidth: 2, pointRadius: 0, fill: true,
          stepped: this.stepped, tension: this.stepped ? 0 : 0.25, borderDash: kind.dash || [],
        })),
      },
      options: {
        animation: false, responsive: true, maintainAspectRatio: false, parsing: false,
        normalized: true, interaction: {mode: 'index', intersect: false},
        scales: {
          x: {
            type: 'linear', grid: {display: false, borderColor: colour.line},
            ticks: {
              color: colour.muted, maxTicksLimit: 5, maxRotation: 0,
              callback: (value) => clockOf(value, this.short),
            },
          },
          y: {
            beginAtZero: true, suggestedMax: this.stepped ? 4 : 10,
            grid: {color: colour.line, borderColor: colour.line},
            ticks: {color: colour.muted, maxTicksLimit: 5, precision: 0,
              callback: (value) => count(value)},
          },
        },
        plugins: {
          legend: {
            align: 'start',
            labels: {color: colour.ink, boxWidth: 14, boxHeight: 2, font: {size: 12}},
          },
          tooltip: {
            callbacks: {
              title: (items) => clockOf(items[0].parsed.x, true),
              label: (item) => `${item.dataset.label}: ${rate(item.parsed.y)}${this.unit}`,
            },
          },
        },
      },
    });
  }

  draw() {
    if (!this.chart) this.make();
    if (!this.chart) return;
    const {points} = this.series;
    this.kinds.forEach((kind, i) => {
      this.chart.data.datasets[i].data =
          points.map((point) => ({x: point.at, y: point.values[kind.index]}));
    });
    if (points.length > 0) {
      const last = points[points.length - 1].at;
      this.short = last - points[0].at < 600;
      const first = Math.min(points[0].at, last - 60);
      Object.assign(this.chart.options.scales.x, {min: first, max: last});
    }
    this.chart.update('none');
  }
}

export class Charts {
  constructor() {
    this.series = new Series(['output', 'prompt', 'running', 'waiting']);
    this.drawnAt = 0;
    this.charts = [
      new LineChart('throughput-chart', this.series, [
        {name: 'Output', colour: 'decode', index: 0},
        {name: 'Prompts', colour: 'prefill', index: 1, dash: [5, 3]},
      ], ' tokens/s', false),
      new LineChart('load-chart', this.series, [
        {name: 'Running', colour: 'decode', index: 2},
        {name: 'Waiting', colour: 'muted', index: 3, dash: [5, 3]},
      ], '', false),
    ];
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
      for (const chart of this.charts) chart.make();
      this.drawnAt = 0;
    });
  }

  add(store) {
    const {frame} = store;
    const rates = store.rates();
    let running = 0;
    let waiting = 0;
    for (const one of Object.values(frame.queue.classes)) {
      running += one.running;
      waiting += one.waiting;
    }
    this.series.add(frame.at, [rates.output, rates.prompt, running, waiting]);
  }

  // At most once a second.
  draw(store) {
    const {frame} = store;
    if (Math.abs(frame.at - this.drawnAt) < 1) return;
    this.drawnAt = frame.at;
    for (const chart of this.charts) chart.draw();
    const rates = store.rates();
    const of = store.gateway ? 'Tokens per second of ended requests' : 'Tokens per second';
    byId('throughput-text').textContent = `${of}: ${rate(rates.output)} of answers, ` +
        `${rate(rates.prompt)} of prompts now`;
    byId('load-text').textContent = 'Requests since this page was opened';
  }
}
