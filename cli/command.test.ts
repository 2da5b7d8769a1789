import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ArgumentSpec, parseArguments, subjectOf } from './command.ts';
import { COMMANDS } from './commands.ts';
import { UsageError } from './failure.ts';

const SPEC: ArgumentSpec = {
  positionals: '<app> <query> [input]',
  options: {
    url: { value: 'url', summary: '' },
    with: { value: 'dir', summary: '' },
    lines: { value: 'count', short: 'n', summary: '' },
    json: { summary: '' },
    help: { summary: '', short: 'h' },
  },
};

test('positionals and options are read in any order', () => {
  const args = parseArguments(
    ['--json', 'notes', '--url=http://x', 'list', '-n', '5', '-', '--with', 'a', '--with', 'b'],
    SPEC,
  );
  assert.deepEqual([args.at(0), args.at(1), args.optionalAt(2)], ['notes', 'list', '-']);
  assert.equal(args.text('url'), 'http://x');
  assert.equal(args.number('lines', 1, 500), 5);
  assert.ok(args.has('json'));
  assert.deepEqual(args.list('with'), ['a', 'b']);
  assert.equal(args.number('url-that-is-not-given', 1, 2), undefined);
});

test('words after -- are positional', () => {
  assert.equal(parseArguments(['notes', 'list', '--', '--json'], SPEC).optionalAt(2), '--json');
});

test('help needs no arguments', () => {
  assert.ok(parseArguments(['-h'], SPEC).has('help'));
});

for (const [words, message, hint] of [
  [[], '<app> is missing.'],
  [['notes'], '<query> is missing.'],
  [['a', 'b', 'c', 'd'], '"d" is one argument too many.'],
  [['a', 'b', '--jsn'], 'There is no option --jsn.', 'Did you mean --json?'],
  [['a', 'b', '--toString'], 'There is no option --toString.'],
  [['a', 'b', '--json=yes'], '--json is a switch and takes no value.'],
  [['a', 'b', '--url'], '--url needs a value: --url <url>.'],
] as [string[], string, string?][]) {
  test(`svc read ${words.join(' ')}: ${message}`, () => {
    assert.throws(
      () => parseArguments(words, SPEC),
      (error) => error instanceof UsageError && error.message === message && error.hint === hint,
    );
  });
}

for (const text of ['0', '501', '-1', 'x', '1.5', '']) {
  test(`"${text}" is no count from 1 to 500`, () => {
    assert.throws(() => parseArguments(['a', 'b', `--lines=${text}`], SPEC).number('lines', 1, 500), UsageError);
  });
}

const SUBJECTS: [line: string, app: string | undefined][] = [
  ['activate notes v1', 'notes'],
  ['describe notes add', 'notes'],
  ['describe', undefined],
  ['read notes list', 'notes'],
  ['publish notes --workspace redesign', 'notes'],
  ['publish --workspace redesign', undefined],
  ['export out', undefined],
  ['import out', undefined],
  ['push ./folder', undefined],
  ['push ./folder --id notes', 'notes'],
  ['dev ./folder', undefined],
  ['workspaces update redesign --app notes', 'notes'],
  ['workspaces rm redesign', undefined],
  ['runs notes/digest', 'notes'],
  ['run notes/digest', 'notes'],
  ['run show 019a0000-0000-7000-8000-000000000001', undefined],
  ['automations enable notes/digest', 'notes'],
  ['automations', undefined],
];

for (const [line, app] of SUBJECTS) {
  test(`svc ${line} is about ${app ?? 'no app'}`, () => {
    const [name, ...words] = line.split(' ');
    const command = COMMANDS.find((candidate) => candidate.name === name);
    assert.ok(command, `there is a command ${name}`);
    assert.equal(subjectOf(command.positionals, parseArguments(words, command)).app, app);
  });
}
