/**
 * The jobs process of the real daemon: untrusted input stays there, and ends neither the daemon nor other apps'
 * uploads.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { constants, deflateRawSync } from 'node:zlib';
import { appOf } from '../testing/apps.ts';
import { eventually, gatewayOfSuite, onEachStore } from '../testing/edges.ts';
import { type Answer, startGateway, type TestGateway } from '../testing/gateway.ts';

const folder = mkdtempSync(join(tmpdir(), 'svc-jobs-'));
after(() => rmSync(folder, { recursive: true, force: true }));
const MiB = 1024 * 1024;

type Process = { role: string; pid: number | null; state: string; restarts: number; rss: number | null };

async function jobsOf(gateway: TestGateway): Promise<Process> {
  const { processes } = (await gateway.system()) as { processes: Process[] };
  return processes.find(({ role }) => role === 'jobs') as Process;
}

/** Writes a file when it runs. */
function exploit(name: string): { id: string; ran: string } {
  const ran = join(folder, name);
  return { id: `*/process.getBuiltinModule('fs').writeFileSync('${ran}','x')/*`, ran };
}

const word = (text: string, input: unknown = { type: 'object' }) =>
  appOf('notes', { queries: { word: { run: `() => '${text}'`, input } } });

onEachStore({}, (gateway, store) => {
  test('the process runs from the first job on', async () => {
    // The git store makes its repository at the first start.
    assert.equal((await jobsOf(gateway)).state, store === 'git' ? 'running' : 'stopped');
    if (store === 'git') {
      await gateway.stop();
      await gateway.start();
      assert.equal((await jobsOf(gateway)).state, 'stopped');
    }
    assert.equal((await gateway.upload('notes', word('0'))).status, 201);
    assert.equal((await jobsOf(gateway)).state, 'running');
  });

  test('a schema whose $id is code is refused, and the code does not run', async () => {
    const { id, ran } = exploit(`tool-${store}`);
    const nested = { type: 'object', properties: { a: { 'x-more': { $id: id } } } };
    for (const [input, field] of [
      [{ $id: id }, '.$id'],
      [nested, '.properties.a.x-more.$id'],
    ] as const) {
      const { status, json } = await gateway.upload('notes', word('x', input));
      assert.deepEqual(
        [status, json.error?.code, json.error?.path],
        [400, 'INVALID_MANIFEST', `queries[0].input${field}`],
      );
    }
    const outputSchema = { type: 'object', $defs: { a: { $id: id } } };
    const automations = { digest: { run: '() => ({})', outputSchema } };
    const { status, json } = await gateway.upload('notes', appOf('notes', { automations }));
    assert.deepEqual([status, json.error?.code], [400, 'INVALID_AUTOMATION']);
    assert.equal(json.error.path, 'automations/digest/automation.json#outputSchema.$defs.a.$id');
    assert.equal(existsSync(ran), false);
  });

  test('its death during uploads leaves the whole old or the whole new version', async () => {
    // No more deaths than a child may have within its time.
    for (let n = 1; n <= 5; n++) {
      const { pid } = await jobsOf(gateway);
      const uploading = gateway.upload('notes', word(String(n)));
      await new Promise((resolve) => setTimeout(resolve, 15 * n));
      if (pid !== null) kill(pid);
      const answer = await uploading;
      const { json } = await gateway.read('notes', 'word', {});
      assert.ok(answer.status === 201 || answer.status === 503, answer.text);
      assert.equal(json.data, String(answer.status === 201 ? n : json.data), `${n}: ${answer.text}`);
      if (answer.status !== 201) assert.equal((await gateway.upload('notes', word(String(n)))).status, 201);
      assert.equal((await gateway.read('notes', 'word', {})).json.data, String(n));
    }
    await eventually(async () => (await jobsOf(gateway)).state === 'running');
    assert.ok((await jobsOf(gateway)).restarts > 0);
    assert.deepEqual(readdirSync(join(gateway.dataDir, 'tmp')), []);
    assert.equal(await gateway.stop(), 0);
  });
});

describe('on the git store alone', () => {
  const gateway = gatewayOfSuite({ store: 'git' });

  // The first one: a gateway with apps imports nothing.
  test('a bundle with an object that would inflate beyond the limit is refused with little memory', async () => {
    const supervisorBefore = rssOf(gateway.pid);
    const imported = gateway.call('POST', '/svc/_code/import', {
      body: bomb(512 * MiB),
      headers: { 'content-type': 'application/octet-stream' },
    });
    let most = 0;
    const watching = setInterval(() => {
      most = Math.max(most, ...childrenOf(gateway.pid).map(rssOf));
    }, 20);
    const { status, json, text } = await imported;
    clearInterval(watching);
    assert.deepEqual([status, json.error?.code], [413, 'BACKUP_TOO_LARGE'], text);
    assert.match(json.error.message, /an object of it has 536870912 bytes/);
    assert.ok(most < 300 * MiB, `a process took ${most} bytes`);
    assert.ok(rssOf(gateway.pid) - supervisorBefore < 100 * MiB, 'the supervisor took part in it');
    assert.equal((await jobsOf(gateway)).restarts, 0);
  });

  test('the preview of a draft runs no code of a schema', async () => {
    assert.equal((await gateway.upload('notes', word('x'))).status, 201);
    await gateway.call('POST', '/svc/_sessions', { body: { sessionId: 's1' } });
    const { id, ran } = exploit('draft');
    const body = word('x', { properties: { a: { $id: id } } })['app.json'] as string;
    const put = await gateway.call('PUT', '/svc/_sessions/s1/apps/notes/files/app.json', { body });
    assert.equal(put.status, 200, put.text);
    const preview = await gateway.call('GET', '/svc/_draft/s1/notes/');
    const read = await gateway.call('POST', '/svc/_draft/s1/_tool/svc_read', { body: { app: 'notes', query: 'word' } });
    assert.match(preview.text, /queries\[0\]\.input\.properties\.a\.\$id/);
    assert.equal(read.json.error?.path, 'queries[0].input.properties.a.$id', read.text);
    const publish = await gateway.call('POST', '/svc/_sessions/s1/publish', { body: { app: 'notes' } });
    assert.equal(publish.json.error?.code, 'INVALID_MANIFEST', publish.text);
    assert.equal(existsSync(ran), false);
  });
});

test('an app that uploads hostile schemas delays no upload of another app until they are checked', async (t) => {
  const gateway = await startGateway(t);
  // Seconds each, and none like another, whose result would be taken.
  const evil = (attack: number) => {
    const names = Array.from({ length: 1500 }, (_, i) => `p${attack}-${i}`);
    const oneOf = names.map((name) => ({ required: [name], properties: { [name]: {} } }));
    return appOf('evil', { queries: { q: { run: '() => 1', input: { oneOf, unevaluatedProperties: false } } } });
  };
  let isOver = false;
  const judged: Answer[] = [];
  const attacks = Array.from({ length: 5 }, async (_, attack) => {
    const answer = await gateway.upload('evil', evil(attack));
    if (!isOver) judged.push(answer);
  });
  const ended = Promise.allSettled(attacks);
  for (const n of attacks.keys()) {
    const { status, text } = await gateway.upload('notes', word(String(n)));
    assert.equal(status, 201, text);
  }
  isOver = true;
  assert.ok(judged.length < attacks.length, 'each of them waited for one of the other app');
  // A machine that has nothing else to do compiles them in time.
  for (const { status, json, text } of judged) {
    assert.ok([200, 201, 400, 409, 503].includes(status), text);
    if (json.error?.code === 'INVALID_MANIFEST') assert.equal(json.error.path, 'queries[0].input');
  }
  // A clean stop would wait for the rest of the attack.
  await gateway.kill();
  await ended;
});

/** One blob of so many zeros, as a complete bundle. */
function bomb(size: number): Buffer {
  const head = Buffer.alloc(12);
  head.write('PACK');
  head.writeUInt32BE(2, 4);
  head.writeUInt32BE(1, 8);
  const bytes = [0x80 + 3 * 16 + (size % 16)];
  for (let rest = Math.floor(size / 16); rest > 0; rest = Math.floor(rest / 128))
    bytes.push((rest % 128) + (rest >= 128 ? 128 : 0));
  const pack = Buffer.concat([head, Buffer.from(bytes), deflatedZeros(size)]);
  const sum = createHash('sha1').update(pack).digest();
  const names = `# v2 git bundle\n${'a'.repeat(40)} refs/heads/main\n\n`;
  return Buffer.concat([Buffer.from(names), pack, sum]);
}

/** As zlib would deflate so many MiB of zeros, for the work of one: each begins anew, and repeats the first. */
function deflatedZeros(size: number): Buffer {
  const part = deflateRawSync(Buffer.alloc(MiB), { finishFlush: constants.Z_FULL_FLUSH });
  const checksum = Buffer.alloc(4);
  // Adler-32 of zeros: the sum of the bytes stays 1, and the sum of these sums counts them.
  checksum.writeUInt16BE(size % 65_521);
  checksum.writeUInt16BE(1, 2);
  const end = deflateRawSync(Buffer.alloc(0));
  return Buffer.concat([Buffer.from([0x78, 0x9c]), ...Array<Buffer>(size / MiB).fill(part), end, checksum]);
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended already.
  }
}

function childrenOf(pid: number): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number);
}

/** Bytes; 0 for a process that is gone. */
function rssOf(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ')[1]) * 4096;
  } catch {
    return 0;
  }
}
