/**
 * The dashboard and the alert rules in deploy/, and the table of metrics: they match the metrics of a running gateway.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { parse } from 'yaml';
import { appOf } from '../testing/apps.ts';
import { eventually, gatewayOfSuite } from '../testing/edges.ts';
import { root } from '../testing/gateway.ts';

const APP = appOf('notes', {
  queries: { list: '() => 1' },
  automations: { job: "() => { throw new Error('No.'); }" },
  manifest: { blobQuotaMb: 1 },
});
/** Labels that Prometheus adds to what it scrapes, and the one of buckets. */
const ADDED = ['instance', 'job', 'le'];

type Panel = { title: string; targets?: { expr: string; legendFormat: string }[] };
type Rule = { alert: string; expr: string; annotations: { summary: string; description: string } };

const read = (path: string) => readFileSync(join(root, path), 'utf8');
const dashboard = JSON.parse(read('deploy/grafana/svc.json')) as { panels: Panel[] };
const targets = dashboard.panels.flatMap((panel) => panel.targets ?? []);
const rules = (parse(read('deploy/prometheus/svc-alerts.yml')) as { groups: { rules: Rule[] }[] }).groups.flatMap(
  (group) => group.rules,
);

/** The values of each label of each metric. */
type Metrics = Map<string, Map<string, Set<string>>>;

function metricsOf(text: string): Metrics {
  const metrics: Metrics = new Map();
  for (const line of text.split('\n')) {
    const [, family] = /^# TYPE (\S+)/.exec(line) ?? [];
    if (family !== undefined) metrics.set(family, new Map());
    const [, name = '', labels = ''] = /^(svc_[a-z_]+)(?:\{(.*)\})? /.exec(line) ?? [];
    const values = metrics.get(name) ?? metrics.get(familyOf(name));
    for (const [, label = '', value = ''] of labels.matchAll(/([a-z]+)="([^"]*)"/g))
      values?.set(label, (values.get(label) ?? new Set()).add(value));
  }
  return metrics;
}

const familyOf = (name: string): string => name.replace(/_(?:bucket|sum|count)$/, '');

/** The metrics that an expression names, with its conditions on their labels. */
function namesIn(expression: string): { metric: string; asked: [label: string, value: string][] }[] {
  return [...expression.matchAll(/(svc_[a-z_]+)(?:\{([^}]*)\})?/g)].map(([, metric = '', selector = '']) => ({
    metric,
    asked: [...selector.matchAll(/([a-z]+)=~?"([^"]*)"/g)].map(([, label = '', value = '']) => [label, value]),
  }));
}

/** Checks that everything exists that an expression, and the label texts beside it, name. */
function check(metrics: Metrics, expression: string, shown: string[]): void {
  const labels = new Set(ADDED);
  for (const { metric, asked } of namesIn(expression)) {
    const values = metrics.get(metric) ?? metrics.get(familyOf(metric));
    assert.ok(values, `${expression}: no metric "${metric}"`);
    for (const label of values.keys()) labels.add(label);
    // A metric without a count has no labels yet.
    for (const [label, value] of values.size === 0 ? [] : asked)
      assert.ok(
        ADDED.includes(label) || values.get(label)?.has(value),
        `${expression}: no ${metric}{${label}="${value}"}`,
      );
  }
  if (namesIn(expression).some(({ metric }) => metrics.get(familyOf(metric))?.size === 0)) return;
  const grouped = [...expression.matchAll(/\b(?:by|on|ignoring) ?\(([a-z, ]+)\)/g)].flatMap(([, list = '']) =>
    list.split(/, ?/),
  );
  const inTexts = shown.flatMap((text) =>
    [...text.matchAll(/\{\{ ?(?:\$labels\.)?([a-z]+) ?\}\}/g)].map(([, label]) => label ?? ''),
  );
  for (const label of [...grouped, ...inTexts]) assert.ok(labels.has(label), `${expression}: no label "${label}"`);
}

describe('beside a scrape', () => {
  const gateway = gatewayOfSuite({});
  let metrics: Metrics;
  before(async () => {
    assert.equal((await gateway.upload('notes', APP)).status, 201);
    assert.equal((await gateway.read('notes', 'list')).status, 200);
    await gateway.call('POST', '/svc/_automations/notes/job/run?wait=1', { body: {} });
    const stored = await gateway.call('PUT', '/svc/notes/_blobs', { body: Buffer.from('file') });
    assert.equal(stored.status, 201, stored.text);
    // The disk use of apps is measured in the background.
    await eventually(async () => {
      metrics = metricsOf((await gateway.call('GET', '/svc/_metrics')).text);
      return metrics.get('svc_app_disk_bytes')?.size;
    });
  });

  test('the dashboard shows each of its metrics, and no other', () => {
    const named = new Set(targets.flatMap(({ expr }) => namesIn(expr).map(({ metric }) => familyOf(metric))));
    assert.deepEqual([...named].sort(), [...metrics.keys()].sort());
    for (const { expr, legendFormat } of targets) check(metrics, expr, [legendFormat]);
  });

  test('the alert rules use existing metrics, and are those of the document', () => {
    for (const { expr, annotations } of rules) check(metrics, expr, Object.values(annotations));
    const section = read('docs/monitoring.md').split('### Alerts')[1]?.split('###')[0] ?? '';
    const documented = [...section.matchAll(/^\| `(Svc\w+)` \|/gm)].map(([, name]) => name);
    assert.deepEqual(
      documented,
      rules.map(({ alert }) => alert),
    );
  });

  test('the table in the document lists all metrics, with their labels', () => {
    const documented = new Map<string, string>();
    for (const [, names = '', labels = ''] of read('docs/monitoring.md').matchAll(/^\| (`svc_[^|]*) \| ([^|]*)\|/gm))
      for (const [, name = ''] of names.matchAll(/`(\w+)`/g)) documented.set(name, labels);
    assert.deepEqual([...documented.keys()].sort(), [...metrics.keys()].sort());
    for (const [name, labels] of metrics)
      for (const label of labels.keys())
        assert.ok(label === 'le' || documented.get(name)?.includes(`\`${label}\``), `${name}: ${label}`);
  });
});
