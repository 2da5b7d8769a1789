/** What each role of people may do, tried with every route on both edges, live and in a draft (docs/http-roles.md). */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { RESOURCES } from '../protocol/routes/resources.ts';
import { pathsOf, type RouteRow } from '../protocol/routes/row.ts';
import { PEOPLES_ROLES, type PeoplesRole, weakestRoles } from '../protocol/routes/weakest-role.ts';
import { appOf } from '../testing/apps.ts';
import { onEachEdge } from '../testing/edges.ts';
import type { Origin } from '../testing/origins.ts';
import { join, openLink, visitor } from '../testing/people.ts';

/**
 * Not tried here: pages, which are at the origins of apps; what asks nobody who they are; and what looks at more than its row says,
 * such as the app of a run. Tests of their own have those.
 */
const isElsewhere = ({ needs, path }: RouteRow): boolean =>
  needs === 'page' ||
  needs === 'anyone' ||
  (typeof needs === 'object' && needs.of.includes(' ')) ||
  path === '/svc/_sessions/:sid' ||
  path.endsWith('/_errors');

/** What stands in for the parameters of a path. */
const PARAMETERS: Readonly<Record<string, string>> = { id: 'own', app: 'own', sid: 'draft', pid: 'me' };

const addressOf = (path: string, query = ''): string =>
  path.replace(/:(\w+)/g, (_, name: string) => PARAMETERS[name] ?? 'none').replace('*', 'none') + query;

/** `isOfApp`: it is about the app. */
type Request = { row: RouteRow; address: string; body: object | undefined; least: PeoplesRole; isOfApp: boolean };

/** A request to a path of a row: about the app, or where the row names it beside the path, one about it and one about none. */
function requestsTo(row: RouteRow, path: string): Request[] {
  const { needs, body } = row;
  const { role, without = role } = weakestRoles(row, path);
  const takesJson = body !== undefined && !('media' in body);
  // Not what the route takes: who may use it is told so, and nothing happens.
  const wrong = takesJson ? { none: 1 } : undefined;
  const request = { row, address: addressOf(path), body: wrong, least: role };
  if (typeof needs === 'string') return [{ ...request, isOfApp: /:(?:id|app)\b/.test(path) }];
  const inQuery = row.query?.properties?.[needs.of] !== undefined;
  // There is an app of this name, so nobody makes a new one of it.
  const id = needs.right === 'make' ? 'fresh' : 'own';
  const named = inQuery
    ? { ...request, address: addressOf(path, `?${needs.of}=${id}`) }
    : { ...request, body: { ...wrong, [needs.of]: id } };
  const about = { ...named, isOfApp: id === 'own' };
  // Of a draft they always name it.
  return path.startsWith('/svc/_draft/') ? [about] : [about, { ...request, least: without, isOfApp: false }];
}

/** Whether somebody may: each role what those before it may, but an author has none in an app of others. */
function mayUse(role: PeoplesRole, { least, isOfApp }: Request): boolean {
  const rank = (one: PeoplesRole) => PEOPLES_ROLES.indexOf(one);
  return rank(role) >= rank(least) && !(isOfApp && role === 'author' && rank(least) > rank('member'));
}

onEachEdge({}, (gateway, _edge, store) => {
  const people = new Map<PeoplesRole, Origin>();
  /** With a link as viewer, at the page of the app. */
  let guest: Origin;
  before(async () => {
    const app = appOf('own', { queries: { all: '() => []' }, files: { 'index.html': '<title>Own</title>' } });
    assert.equal((await gateway.upload('own', app)).status, 201);
    if (store === 'git') {
      await gateway.call('POST', '/svc/_sessions', { body: { sessionId: 'draft' } });
      assert.equal((await gateway.call('GET', '/svc/_sessions/draft/apps/own/files')).status, 200);
    }
    people.set('nobody', visitor(gateway));
    const { json } = await gateway.call('POST', '/svc/_apps/own/shares', { body: { link: true, role: 'viewer' } });
    guest = await openLink(gateway, json.url);
    for (const role of PEOPLES_ROLES.slice(1)) {
      const isOfApp = role === 'viewer' || role === 'editor' || role === 'manager';
      const given = isOfApp ? { grants: [{ app: 'own', role }] } : { role };
      people.set(role, (await join(gateway, role, given)).origin);
    }
  });

  test('each route refuses whom the table says, and nobody whom it names', { timeout: 600_000 }, async () => {
    const rows = RESOURCES.flatMap((resource) => resource.rows).filter((row) => !isElsewhere(row));
    const requests = rows.flatMap((row) => pathsOf(row).flatMap((path) => requestsTo(row, path)));
    const there = requests.filter(({ address }) => store === 'git' || !address.includes('draft'));
    const tries = there.flatMap((request) => [...people].map(([role, origin]) => ({ request, role, origin })));
    const wrong: string[] = [];
    for (const { request, role, origin } of tries.filter(isTried)) {
      const { method } = request.row;
      const { status, text } = await origin.call(method, request.address, request.body && { body: request.body });
      if ((status !== 403 && status !== 401) !== mayUse(role, request))
        wrong.push(
          `${role} ${method} ${request.address} ${JSON.stringify(request.body)}: ${status} ${text.slice(0, 90)}`,
        );
    }
    for (const request of there.filter((one) => one.least !== 'nobody' && !(one.isOfApp && mayUse('viewer', one)))) {
      const { method } = request.row;
      const { status } = await guest.call(method, request.address, request.body && { body: request.body });
      if (status !== 403 && status !== 401) wrong.push(`guest ${method} ${request.address}: ${status}`);
    }
    assert.deepEqual(wrong, []);
    assert.ok(tries.length > 800, `${tries.length} requests`);
  });
});

/** Whoever may not is refused, so nothing happens. Of those who may, the weakest asks, where it changes nothing and ends. */
function isTried({ request, role }: { request: Request; role: PeoplesRole }): boolean {
  const { row, body, least } = request;
  if (!mayUse(role, request)) return true;
  return role === least && (body !== undefined || row.method === 'GET') && row.answer.events === undefined;
}
