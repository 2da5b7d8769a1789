/** People and their rights at two nodes, over real edges and sockets, with the log of a real PostgreSQL. */
import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { before, describe, type TestContext, test } from 'node:test';
import { pino } from 'pino';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { SqlParams, SqlStatement } from '../../../protocol/wire/frames.ts';
import { Database } from '../../../storage/cluster/database.ts';
import { prepareTables } from '../../../storage/cluster/tables.ts';
import { LogNames } from '../../../storage/replication/names.ts';
import { openSqlite } from '../../../storage/sqlite.ts';
import { BEST_EDGE } from '../../../testing/edges.ts';
import { database, whyNoPostgres } from '../../../testing/postgres.ts';
import { eventually, inTime, LIMIT_MS } from '../../../testing/waiting.ts';
import type { Edge } from '../../edge/edge.ts';
import { openEdge } from '../../edge/open-edge.ts';
import { ProgramTokens } from '../../http/access/program-tokens.ts';
import { SignIns } from '../../http/access/sign-ins.ts';
import { AuditLog } from '../../operations/audit-log.ts';
import { Preferences } from '../../pages/preferences.ts';
import { Accounts } from '../../people/accounts.ts';
import type { IdentityClient, IdentityDb } from '../../people/identity-db.ts';
import type { Account } from '../../people/records.ts';
import { Calls } from '../calls/calls.ts';
import { type Owner, Owners } from '../calls/owners.ts';
import { NODE_ANSWER, NODE_CALL, NODE_PATHS, Proofs } from '../calls/proofs.ts';
import { ClusterIdentity, IDENTITY_BUCKET, IDENTITY_DATABASE } from './cluster-identity.ts';

const SECRET = 'the secret of this cluster';
const QUIET = pino({ enabled: false });
const WAYS = { passkeys: true, passwords: true, providers: new Map(), proxy: null } as const;
const BROWSER = { address: '127.0.0.1', device: 'a browser', before: undefined };
const ANN = { name: 'Ann', email: null, isVouched: false, role: 'owner', password: null } as const;

/** The database that moves between the nodes, and the log of the cluster, which gets an entry for each commit. */
class Shared {
  readonly file: string;
  readonly log: Database;
  readonly sqlite: ReturnType<typeof openSqlite>;
  #seq = 0;

  constructor(folder: string, log: Database) {
    this.file = join(folder, 'identity.db');
    this.log = log;
    this.sqlite = openSqlite(this.file);
  }

  rows(sql: string): unknown[] {
    return this.sqlite.prepare(sql).all();
  }

  async append(): Promise<void> {
    const entry = [IDENTITY_BUCKET, IDENTITY_DATABASE, 1, ++this.#seq, Buffer.alloc(1)];
    await this.log.rows(
      'INSERT INTO svc.log (bucket, database, epoch, seq, frames) VALUES ($1, $2, $3, $4, $5)',
      entry,
    );
  }

  /** `fails`: batches are stored, and then not answered for. */
  client(state: { fails: boolean }): IdentityClient {
    const write = async <T>(work: () => T, fails = false): Promise<T> => {
      const result = work();
      await this.append();
      if (fails) throw new SvcError('STORAGE_UNAVAILABLE', 'The database of the cluster is away.');
      return result;
    };
    const run = (sql: string, params: SqlParams = []) => this.sqlite.prepare(sql).run(params) as never;
    return {
      run: (sql, params) => write(() => run(sql, params)),
      exec: (sql) => write(() => this.sqlite.exec(sql) && null),
      batch: (all: SqlStatement[]) =>
        write(() => this.sqlite.transaction(() => all.map((one) => run(...one)))(), state.fails),
      get: async (sql, params = []) => (this.sqlite.prepare(sql).get(params) as never) ?? null,
      all: async (sql, params = []) => this.sqlite.prepare(sql).all(params) as never,
    };
  }
}

/** `reads`: how often all people were read through it. */
type Loss = { isCut: boolean; answers: number; reads: number };

/** A proxy that passes what it gets, loses the answers to so many calls of work, and nothing at all while it is cut. */
async function proxyTo(t: TestContext, port: number): Promise<{ port: number; loss: Loss }> {
  const loss = { isCut: false, answers: 0, reads: 0 };
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    const far = connect(port, '127.0.0.1');
    let isLost = false;
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on('error', () => {}).on('close', () => (socket === near ? far.destroy() : near.destroy()));
    }
    near.on('data', (bytes) => {
      if (loss.isCut) return;
      if (bytes.includes('rows of people_records')) loss.reads++;
      isLost = loss.answers > 0 && bytes.includes(`POST ${NODE_PATHS}identity `);
      if (isLost) loss.answers--;
      far.write(bytes);
    });
    far.on('data', (bytes) => {
      if (isLost) near.destroy();
      else if (!loss.isCut) near.write(bytes);
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, loss };
}

class Node {
  readonly name: string;
  /** As the directory says. */
  owner: Owner | undefined;
  readonly owners: Owners;
  readonly calls: Calls;
  readonly identity: ClusterIdentity;
  readonly edge: Edge;
  readonly database = { fails: false };
  readonly events = new EventEmitter();
  readonly warnings: string[] = [];
  isOwner = false;
  port = 0;
  loss: Loss = { isCut: false, answers: 0, reads: 0 };
  address = '';
  accounts!: Accounts;
  tokens!: ProgramTokens;
  signIns!: SignIns;
  audit!: AuditLog;
  preferences!: Preferences;

  constructor(t: TestContext, name: string, shared: Shared) {
    this.name = name;
    this.owners = new Owners(name, { ownerOf: () => this.owner, isServed: () => this.owner?.node === name });
    this.calls = new Calls({
      owners: this.owners,
      secret: SECRET,
      places: null,
      storing: () => async () => {},
      nodes: () => [],
      locate: () => null,
      log: QUIET,
      next: (exchange) => exchange.send(200, {}, 'served'),
      before: () => this.identity.check(),
    });
    this.identity = new ClusterIdentity({
      db: shared.client(this.database),
      calls: this.calls.ofNodes,
      isOwner: () => this.isOwner,
      seq: () => new LogNames(shared.log, () => undefined).latest(IDENTITY_DATABASE),
      log: QUIET,
    });
    this.edge = openEdge(BEST_EDGE, {
      handler: this.calls.handle,
      onFault: (error) => t.diagnostic(String(error)),
    }).edge;
    t.after(async () => {
      this.identity.close();
      this.calls.close();
      await this.tokens.close();
      await this.accounts.close();
      await this.edge.close();
    });
  }

  async start(t: TestContext, { file }: Shared): Promise<this> {
    const { identity } = this;
    const log = {
      info: () => {},
      warn: () => {},
      error: (...[, text]: string[]) => void this.warnings.push(`${text}`),
    };
    const db: IdentityDb = { db: identity.db, file, log: log as never, nodes: identity };
    this.tokens = await ProgramTokens.open({ ...db, registered: () => true });
    this.accounts = await Accounts.open(db, () => null, WAYS as never);
    this.signIns = await SignIns.open(db, null);
    this.audit = new AuditLog(db);
    this.preferences = new Preferences(db);
    this.tokens.on('ended', () => this.events.emit('ended'));
    this.accounts.onEnded(() => this.events.emit('ended'));
    this.port = await this.edge.listen('127.0.0.1', 0);
    const proxy = await proxyTo(t, this.port);
    this.loss = proxy.loss;
    this.address = `http://127.0.0.1:${proxy.port}`;
    return this;
  }

  /** Waits for what another node ended, at once where it has happened. */
  async hears(what: string, holds: () => boolean): Promise<void> {
    while (!holds()) await inTime(once(this.events, 'ended'), what);
  }
}

describe('people in the cluster', { skip: whyNoPostgres() ?? false }, () => {
  let url: string;

  before(async () => {
    url = await database();
    const log = new Database([url]);
    await prepareTables(log);
    await log.close();
  });

  /** `nodes[0]` owns the database. */
  async function setUp(t: TestContext) {
    const folder = mkdtempSync(join(tmpdir(), 'svc-identity-'));
    const log = new Database([url]);
    await log.rows('DELETE FROM svc.log');
    const shared = new Shared(folder, log);
    t.after(async () => {
      await log.close();
      shared.sqlite.close();
      rmSync(folder, { recursive: true });
    });
    const nodes = ['one', 'two'].map((name) => new Node(t, name, shared));
    const [one, two] = (await Promise.all(nodes.map((node) => node.start(t, shared)))) as [Node, Node];
    let epoch = 0;
    const move = async (to: Node): Promise<void> => {
      epoch++;
      for (const node of [one, two]) node.isOwner = node === to;
      for (const node of [one, two]) if (node !== to) node.identity.follow();
      await to.identity.own(epoch);
      for (const node of [to, one, two]) node.owner = { node: to.name, address: to.address, epoch };
    };
    await move(one);
    await inTime(two.identity.ready, 'the first read of a node');
    return { shared, one, two, move };
  }

  const makeAnn = async ({ accounts }: Node) => {
    const account = await accounts.identities.enter(
      { provider: null, issuer: 'test', subject: 'ann', email: null, name: ANN.name },
      { role: 'owner' },
      BROWSER,
    );
    return { id: account.account.id, session: account.signIn };
  };
  const knows =
    ({ accounts }: Node, id: string, is: (account: Account | undefined) => boolean) =>
    () =>
      is(accounts.people.find(id));

  test('a role that the owner took away ends what goes on at another node, by an event', async (t) => {
    const { one, two } = await setUp(t);
    const { id, session } = await makeAnn(one);
    assert.ok(await eventually(LIMIT_MS, () => two.accounts.known(session.id) !== null));
    const follows = two.accounts.following(session);
    assert.equal(follows()?.person.role, 'owner');
    const role = () => follows()?.person.role;
    await Promise.all([
      one.accounts.people.update(id, { role: 'member' }),
      two.hears('the role', () => role() === 'member'),
    ]);
    await Promise.all([
      one.accounts.people.update(id, { disabled: true }),
      two.hears('the end', () => follows() === null),
    ]);
  });

  test('shares, tokens, ended sign-ins and their length are the same at all nodes', async (t) => {
    const { one, two } = await setUp(t);
    const { id } = await makeAnn(one);
    const { id: share } = await one.accounts.sharing.share({
      ...{ app: 'todos', to: { person: id }, role: 'viewer', expiresAt: null, by: null },
    });
    await two.hears('a share', () => two.accounts.sharing.of('todos').length === 1);
    const { id: token, token: text } = await one.tokens.create({
      ...{ name: 'zapier', apps: ['todos', 'notes'], tools: 'read', expiresInDays: undefined },
    });
    assert.ok(await eventually(LIMIT_MS, () => two.tokens.find(text) !== undefined));
    // What a node does that does not own the database, its owner does.
    await two.tokens.forgetApp('todos');
    await two.accounts.forgetApp('todos');
    assert.deepEqual(one.tokens.find(text)?.apps, ['notes']);
    assert.equal(
      one.accounts.sharing.of('todos').some((other) => other.id === share),
      false,
    );
    await two.hears('the end of a share', () => two.accounts.sharing.of('todos').length === 0);
    assert.ok(await eventually(LIMIT_MS, () => two.tokens.find(text)?.apps?.length === 1));
    const revoked = once(two.tokens, 'ended');
    await one.tokens.revoke(token);
    assert.deepEqual(await inTime(revoked, 'the end of a token'), [token]);
    assert.equal(two.tokens.find(text), undefined);
    const signIn = one.signIns.begin();
    await Promise.all([one.signIns.end(signIn), two.hears('a sign-out', () => two.signIns.isEnded(signIn.id))]);
    await one.signIns.setLength(24 * 7);
    assert.ok(await eventually(LIMIT_MS, () => two.signIns.length.hours === 24 * 7));
    await one.preferences.patch({ theme: 'dark' }, id);
    assert.deepEqual(await two.preferences.read(id), { theme: 'dark' });
  });

  test('what another node writes is stored once, also when the answer was lost', async (t) => {
    const { shared, one, two } = await setUp(t);
    const { id, session } = await makeAnn(one);
    const { id: token, token: text } = await one.tokens.create({
      ...{ name: 'zapier', apps: undefined, tools: 'read', expiresInDays: undefined },
    });
    assert.ok(await eventually(LIMIT_MS, () => two.tokens.find(text) !== undefined && two.accounts.known(session.id)));
    one.loss.answers = 2;
    await two.audit.record({ kind: 'machine' }, 'token.rotated', 'a target');
    assert.equal(one.loss.answers, 0);
    assert.deepEqual(two.warnings, []);
    assert.deepEqual(shared.rows('SELECT target FROM audit'), [{ target: 'a target' }]);
    // The owner saw later ones.
    const later = Date.now() + LIMITS.dayMs;
    shared.sqlite.prepare('UPDATE program_tokens SET last_used_at = ?').run(later);
    two.accounts.people.used(session.id);
    two.tokens.find(text);
    one.loss.answers = 1;
    await Promise.all([two.tokens.close(), two.accounts.people.storeLastUses()]);
    assert.deepEqual(shared.rows(`SELECT id, last_used_at FROM program_tokens`), [{ id: token, last_used_at: later }]);
    const used = one.accounts.people.session(session.id);
    assert.ok(used !== undefined && used.lastUsedAt > used.createdAt);
    assert.equal(one.accounts.people.find(id)?.lastSeenAt, used.lastUsedAt);
    assert.equal(shared.rows(`SELECT id FROM people_records WHERE kind = 'session'`).length, 1);
  });

  test('a node that does not own the database changes nothing itself', async (t) => {
    const { one, two } = await setUp(t);
    const { id } = await makeAnn(one);
    assert.ok(
      await eventually(
        LIMIT_MS,
        knows(two, id, (account) => account !== undefined),
      ),
    );
    await assert.rejects(two.accounts.people.update(id, { name: 'Eve' }), { code: 'STORAGE_UNAVAILABLE' });
    assert.equal(two.accounts.people.get(id).name, 'Ann');
    assert.equal(one.accounts.people.get(id).name, 'Ann');
  });

  test('a new owner reads all before it serves, and the one before follows it', async (t) => {
    const { shared, one, two, move } = await setUp(t);
    const { id, session } = await makeAnn(one);
    assert.ok(await eventually(LIMIT_MS, () => two.accounts.known(session.id) !== null));
    // The other node misses what its owner does last.
    one.loss.isCut = true;
    await one.accounts.people.update(id, { name: 'Ann of the owner' });
    const recorded = two.audit.record({ kind: 'machine' }, 'token.rotated', 'while it moves');
    await move(two);
    one.loss.isCut = false;
    assert.equal(two.accounts.people.get(id).name, 'Ann of the owner');
    await recorded;
    assert.deepEqual(shared.rows('SELECT target FROM audit'), [{ target: 'while it moves' }]);
    const follows = one.accounts.following(session);
    assert.notEqual(follows(), null);
    await Promise.all([
      two.accounts.people.update(id, { disabled: true }),
      one.hears('the end', () => follows() === null),
    ]);
    await assert.rejects(one.accounts.people.update(id, { disabled: false }), { code: 'STORAGE_UNAVAILABLE' });
  });

  test('an owner that hands the database over need not read it again', async (t) => {
    const { one, two, move } = await setUp(t);
    const { id, session } = await makeAnn(one);
    assert.ok(await eventually(LIMIT_MS, () => two.accounts.known(session.id) !== null));
    assert.equal(one.loss.reads, 1);
    await move(two);
    await two.accounts.people.update(id, { name: 'Ann of two' });
    assert.ok(await eventually(LIMIT_MS, () => one.accounts.people.get(id).name === 'Ann of two'));
    await move(one);
    await one.accounts.people.update(id, { name: 'Ann of one' });
    assert.ok(await eventually(LIMIT_MS, () => two.accounts.people.get(id).name === 'Ann of one'));
    assert.deepEqual([one.loss.reads, two.loss.reads], [1, 0]);
  });

  test('rights count while nothing can have changed, and no longer', async (t) => {
    const { one, two, shared } = await setUp(t);
    const { session } = await makeAnn(one);
    const { token } = await one.tokens.create({
      ...{ name: 'zapier', apps: undefined, tools: 'read', expiresInDays: undefined },
    });
    const signIn = one.signIns.begin();
    assert.ok(await eventually(LIMIT_MS, () => two.accounts.known(session.id) !== null && two.tokens.find(token)));
    const follows = two.accounts.following(session);
    one.loss.isCut = true;
    const cutAt = performance.now();
    const isLong = () => performance.now() - cutAt > LIMITS.nodeLeaseMs + LIMITS.identityAskMs;
    assert.ok(await eventually(LIMIT_MS, isLong, 50));
    assert.notEqual(follows(), null);
    await shared.append();
    await two.hears('the end of what is known', () => follows() === null);
    assert.deepEqual(
      [two.identity.current, two.tokens.find(token), two.signIns.isEnded(signIn.id)],
      [false, undefined, true],
    );
    assert.notEqual(one.accounts.known(session.id), null);
    one.loss.isCut = false;
    assert.ok(await eventually(LIMIT_MS, () => follows() !== null && !two.signIns.isEnded(signIn.id)));
  });

  test('an owner whose lease has ended tells nobody that nothing changed', async (t) => {
    const { one, two } = await setUp(t);
    const { session } = await makeAnn(one);
    assert.ok(await eventually(LIMIT_MS, () => two.accounts.known(session.id) !== null));
    const follows = two.accounts.following(session);
    one.isOwner = false;
    // The lease of the identity database's log is not known to end with it.
    await one.identity.db.exec('CREATE TABLE IF NOT EXISTS other (a)');
    await two.hears('the end of what is known', () => follows() === null);
    one.isOwner = true;
    assert.ok(await eventually(LIMIT_MS, () => follows() !== null));
  });

  test('what a failed write stored all the same is known to the owner and the others', async (t) => {
    const { one, two } = await setUp(t);
    const { id } = await makeAnn(one);
    assert.ok(
      await eventually(
        LIMIT_MS,
        knows(two, id, (account) => account !== undefined),
      ),
    );
    one.database.fails = true;
    await assert.rejects(one.accounts.people.update(id, { role: 'member' }), { code: 'STORAGE_UNAVAILABLE' });
    one.database.fails = false;
    assert.equal(one.accounts.people.get(id).role, 'owner');
    for (const node of [one, two])
      await node.hears(
        'the role',
        knows(node, id, (account) => account?.role === 'member'),
      );
  });

  test('who cannot prove to be a node of the cluster asks and answers nothing', async (t) => {
    const { one, two } = await setUp(t);
    const path = `${NODE_PATHS}identity`;
    const body = Buffer.from(JSON.stringify({ name: 'audit', given: [] }));
    const said = { bucket: IDENTITY_BUCKET, epoch: 1 };
    const right = new Proofs(SECRET).ofCall(path, said, body);
    const other = new Proofs('another secret').ofCall(path, said, body);
    const early = new Proofs(SECRET, () => Date.now() - 2 * LIMITS.forwardedProofMs).ofCall(path, said, body);
    const elsewhere = new Proofs(SECRET).ofCall(`${path}-changes`, said, body);
    const target = { method: 'POST', path, query: '', header: () => `127.0.0.1:${one.port}` };
    const forwarded = new Proofs(SECRET).ofRequest(target, 'POST', { ...said, client: '127.0.0.1' });
    const ask = async (node: Node, proof: string | null, sent: Buffer = body) => {
      const headers = proof === null ? {} : { [NODE_CALL]: proof };
      const answer = await fetch(`http://127.0.0.1:${node.port}${path}`, { method: 'POST', headers, body: sent });
      const text = await answer.text();
      return { status: answer.status, code: text === '' ? '' : JSON.parse(text).error?.code, answer };
    };
    for (const proof of [null, '', 'yes', other, early, elsewhere, forwarded, `${right} more`, right.slice(0, -1)])
      assert.equal((await ask(one, proof)).code, 'UNAUTHORIZED', `${proof}`);
    // What a client asks of another node is not sent on with a proof.
    assert.equal((await ask(two, null)).code, 'UNAUTHORIZED');
    const changed = Buffer.from(JSON.stringify({ name: 'audit', given: [1] }));
    assert.equal((await ask(one, right, changed)).code, 'UNAUTHORIZED');
    for (const name of ['SELECT 1', 'toString', 'constructor']) {
      const unknown = Buffer.from(JSON.stringify({ name, given: 'DELETE FROM people_records' }));
      assert.equal((await ask(one, new Proofs(SECRET).ofCall(path, said, unknown), unknown)).code, 'NOT_FOUND', name);
    }
    const large = Buffer.alloc(LIMITS.nodeCallBytes + 1, ' ');
    assert.equal((await ask(one, new Proofs(SECRET).ofCall(path, said, large), large)).code, 'PAYLOAD_TOO_LARGE');
    // It is not sent on from a node that does not own it.
    assert.equal((await ask(two, right)).status, 421);
    const late = new Proofs(SECRET).ofCall(path, { ...said, epoch: 9 }, body);
    assert.equal((await ask(one, late)).status, 421);
    // An answer of somebody else is not believed.
    const impostor = createServer((socket) =>
      socket
        .on('error', () => {})
        .on('data', () => {
          const text = JSON.stringify({ value: { told: null, place: { epoch: 1, number: 0 }, isMore: false, seq: 0 } });
          socket.end(`HTTP/1.1 200 OK\r\n${NODE_ANSWER}: forged\r\ncontent-length: ${text.length}\r\n\r\n${text}`);
        }),
    ).listen(0, '127.0.0.1');
    await once(impostor, 'listening');
    t.after(() => impostor.close());
    const { port } = impostor.address() as AddressInfo;
    two.owner = { node: 'one', address: `http://127.0.0.1:${port}`, epoch: 2 };
    await assert.rejects(two.preferences.read('p'), /no node of this cluster/);
  });
});
