/** Notices of a gateway that gets and loses apps while it runs. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { pino } from 'pino';
import { Redactor } from '../../protocol/text/redactor.ts';
import { startWriter } from '../../testing/run-ledger.ts';
import { eventually, LIMIT_MS } from '../../testing/waiting.ts';
import { defaultConfig } from '../config.ts';
import { OneRuntimeDatabase } from '../runtime/runtime-databases.ts';
import { NoticeLinks } from './notice-links.ts';
import { Notices } from './notices.ts';

test('what an earlier gateway could not send of an app goes out here, and its failure is told once', async (t) => {
  const writer = await startWriter(t);
  const got: string[] = [];
  let isDown = true;
  const server = createServer((request, response) => {
    if (isDown) {
      response.writeHead(503).end();
      return;
    }
    let text = '';
    request.on('data', (chunk: Buffer) => (text += chunk.toString()));
    request.on('end', () => {
      got.push((JSON.parse(text) as { title: string }).title);
      response.end();
    });
  }).listen(0, '127.0.0.1');
  t.after(() => server.close());
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const config = defaultConfig(writer.folder);
  config.notify = [{ kind: 'json', url: `http://127.0.0.1:${port}/` }];
  const wakes: (() => void)[] = [];
  const gateway = (file: string) => {
    const db = writer.client(file);
    const notices = new Notices({
      config,
      links: new NoticeLinks(config, () => null),
      runtime: new OneRuntimeDatabase(db),
      identity: { db: writer.client(`identity-${file}`), file: join(writer.folder, 'none') },
      keyFile: join(writer.folder, 'push.key'),
      redactor: () => new Redactor(),
      record: null,
      log: pino({ enabled: false }),
      setTimer: (_ms, wake) => {
        wakes.push(wake);
        return () => {};
      },
    });
    t.after(() => notices.stop());
    return { db, notices };
  };
  const failure = (app: string) => ({
    ...{ key: `app ${app}`, kind: 'quarantine' as const, app: { id: app, name: app } },
    ...{ title: `${app} failed`, text: 'x', url: null },
  });
  const [one, other] = [gateway('one'), gateway('other')];
  one.notices.failed(failure('notes'));
  await eventually(LIMIT_MS, () => wakes.length === 1);
  one.notices.release((app) => app === 'notes');
  assert.equal(one.notices.status()[0]?.waiting, 0);

  isDown = false;
  other.notices.recover(one.db);
  other.notices.failed(failure('notes'));
  other.notices.failed(failure('todos'));
  await eventually(LIMIT_MS, () => got.length === 2);
  assert.deepEqual(got, ['notes failed', 'todos failed']);
  // The first one knows of no failure any more.
  wakes[0]?.();
  one.notices.failed(failure('notes'));
  await eventually(LIMIT_MS, () => got.length === 3);
  assert.equal(got[2], 'notes failed');
});
