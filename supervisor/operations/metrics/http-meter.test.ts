import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allRoutes } from '../../routes/all.ts';
import type { Services } from '../../services.ts';
import { HttpMeter, ROUTE_KINDS, routeKind } from './http-meter.ts';

test('each route has a kind', () => {
  for (const [path, kind] of [
    ['/svc/_tool/svc_read', 'call'],
    ['/svc/_draft/:sid/_tool/:tool', 'call'],
    ['/svc/:id/*', 'page'],
    ['/svc/_draft/:sid/:id/*', 'page'],
    ['/svc/', 'page'],
    ['/svc/:id/_blobs', 'file'],
    ['/svc/:id/_blobs/:sha256', 'file'],
    ['/svc/:id/_live', 'stream'],
    ['/svc/:id/_changes', 'stream'],
    ['/svc/_runs/:runId/events', 'stream'],
    ['/_svc-hook*', 'webhook'],
    ['/svc/_apps/:id/upload', 'api'],
  ] as const) {
    assert.equal(routeKind(path), kind, path);
  }
  const found = new Set(allRoutes({ automations: {} } as Services).map(({ path }) => routeKind(path)));
  assert.deepEqual(
    [...found].sort(),
    ROUTE_KINDS.filter((kind) => kind !== 'none'),
  );
});

test('answers are counted by kind and class of status, with how long they took', () => {
  const meter = new HttpMeter();
  const call = ROUTE_KINDS.indexOf('call');
  meter.answered(call, 200, 0.5);
  meter.answered(call, 201, 3);
  meter.answered(call, 503, 99_999);
  meter.answered(0, 404, 1);
  assert.deepEqual(
    [2, 3, 4, 5].map((hundreds) => meter.total(hundreds)),
    [2, 0, 1, 1],
  );
  const shown = meter.distributions.map(({ labels, counts, sum }) => [labels, [...(counts as Float64Array)], sum]);
  const none = Array<number>(13).fill(0);
  assert.deepEqual(shown, [
    [{ route: 'none', status: '4xx' }, none.with(0, 1), 0.001],
    [{ route: 'call', status: '2xx' }, none.with(0, 1).with(2, 1), 0.0035],
    [{ route: 'call', status: '5xx' }, none.with(12, 1), 99.999],
  ]);
});
