import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseArguments } from './arguments.ts';
import { COMMANDS } from './commands.ts';
import { subjectOf } from './explain.ts';

const CASES: [line: string, app: string | undefined][] = [
  ['activate notes v1', 'notes'],
  ['describe notes add', 'notes'],
  ['describe', undefined],
  ['read notes list', 'notes'],
  ['publish notes --session redesign', 'notes'],
  ['publish --session redesign', undefined],
  ['export out', undefined],
  ['import out', undefined],
  ['push ./folder', undefined],
  ['push ./folder --id notes', 'notes'],
  ['dev ./folder', undefined],
  ['sessions update redesign --app notes', 'notes'],
  ['sessions rm redesign', undefined],
  ['runs notes/digest', 'notes'],
  ['run notes/digest', 'notes'],
  ['run show 019a0000-0000-7000-8000-000000000001', undefined],
  ['automations enable notes/digest', 'notes'],
  ['automations', undefined],
];

for (const [line, app] of CASES) {
  test(`svc ${line} is about ${app ?? 'no app'}`, () => {
    const [name, ...words] = line.split(' ');
    const command = COMMANDS.find((candidate) => candidate.name === name);
    assert.ok(command, `there is a command ${name}`);
    assert.equal(subjectOf(command.positionals, parseArguments(words, command)).app, app);
  });
}
