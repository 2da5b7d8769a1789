import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { svc, temporaryFolder } from '../testing/command-line.ts';
import { withApp } from './app-argument.ts';
import { parseArguments } from './command.ts';
import { COMMANDS } from './commands.ts';

/** A folder with the app `notes` in `my-notes`, and `shop` in `sold`, which was pulled as `store`. */
function workplace(t: Parameters<typeof temporaryFolder>[0]): string {
  const root = temporaryFolder(t);
  for (const [folder, id] of [
    ['my-notes', 'notes'],
    ['sold', 'shop'],
  ] as const) {
    mkdirSync(join(root, folder, 'queries'), { recursive: true });
    writeFileSync(join(root, folder, 'app.json'), JSON.stringify({ id }));
  }
  writeFileSync(join(root, 'sold/.svc-app'), JSON.stringify({ app: 'store', version: 'store/v3' }));
  return root;
}

/** The positionals that the command gets. */
function meant(line: string, cwd: string): string[] {
  const [name, ...words] = line.split(' ').map((word) => word.replaceAll('_', ' '));
  const command = COMMANDS.find((candidate) => candidate.name === name) ?? assert.fail(name);
  const args = parseArguments(words, command, cwd);
  const given = [0, 1, 2, 3].map((at) => args.optionalAt(at)).filter((word) => word !== undefined);
  return [...given, ...args.list('app').map((app) => `--app ${app}`)];
}

test('a folder stands for its app wherever a command takes one', (t) => {
  const root = workplace(t);
  for (const [line, ...words] of [
    ['read ./my-notes list', 'notes', 'list'],
    ['open my-notes/', 'notes'],
    ['versions diff ./sold 3', 'diff', 'store', '3'],
    ['secret set ./my-notes KEY', 'set', 'notes', 'KEY'],
    ['trash restore ./my-notes', 'restore', 'notes'],
    ['rm ./my-notes', 'notes'],
    ['token create --app ./my-notes --app shop', 'create', '--app notes', '--app shop'],
    // These work on the folder itself.
    ['dev notes', 'my-notes'],
    ['push ./my-notes', './my-notes'],
    ['types ./my-notes', './my-notes'],
    ['publish ./my-notes', './my-notes'],
    ['dev other', 'other'],
    // An id is an id, whatever folders there are.
    ['read sold list', 'sold', 'list'],
  ] as [string, ...string[]][])
    assert.deepEqual(meant(line, root), words, line);
});

test('in the folder of an app, a command that needs one takes it', (t) => {
  const root = workplace(t);
  const here = join(root, 'my-notes/queries');
  for (const [line, ...words] of [
    ['read list', 'notes', 'list'],
    ['read list {"limit":5}', 'notes', 'list', '{"limit":5}'],
    ['write add @note.json', 'notes', 'add', '@note.json'],
    ['sql select_1', 'notes', 'select 1'],
    ['chat add_milk', 'notes', 'add milk'],
    ['activate notes/v3', 'notes', 'notes/v3'],
    ['versions', 'notes'],
    ['versions diff', 'diff', 'notes'],
    ['files put ./a.jpg', 'put', 'notes', './a.jpg'],
    ['secret set KEY', 'set', 'notes', 'KEY'],
    ['run digest', 'notes/digest'],
    ['run digest {}', 'notes/digest', '{}'],
    ['run show 5', 'show', '5'],
    ['diff', 'notes'],
    ['check', 'notes'],
    ['dev', '..'],
    ['push', '..'],
    ['test', '..'],
    ['types', '..'],
    // What fits as it is, stays.
    ['read todos list', 'todos', 'list'],
    ['versions todos', 'todos'],
    // Without an app these mean something else: the console, all apps, all of the trash.
    ['open'],
    ['logs'],
    ['runs'],
    ['trash empty', 'empty'],
  ] as [string, ...string[]][])
    assert.deepEqual(meant(line, here), words, line);
  assert.throws(() => meant('rm', here), /<app> is missing/);
  assert.throws(() => meant('read list', root), /<query> is missing/);
});

test('a command with an app and its folder gets both from either', (t) => {
  const root = workplace(t);
  const usage = { positionals: '<app> [dir]' };
  for (const [words, cwd, ...expected] of [
    [['./my-notes'], '', 'notes', './my-notes'],
    [['notes'], '', 'notes', 'my-notes'],
    [['todos'], '', 'todos', 'todos'],
    [['notes', 'copy'], '', 'notes', 'copy'],
    [[], 'my-notes', 'notes', '.'],
    [['notes'], 'my-notes/queries', 'notes', '..'],
  ] as [string[], string, ...string[]][])
    assert.deepEqual(withApp(words, usage, join(root, cwd)), expected);
});

test('a path that leads to no app is refused', async (t) => {
  const root = workplace(t);
  const { code, stderr } = await svc(['logs', './my-notes/queries'], { cwd: root });
  assert.equal(code, 1);
  assert.match(stderr, /\.\/my-notes\/queries is not the folder of an app: .*\n.*svc apps/);
  assert.match((await svc(['restart', './none'], { cwd: root })).stderr, /\.\/none does not exist\./);
});
