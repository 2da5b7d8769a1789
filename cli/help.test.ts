import assert from 'node:assert/strict';
import { test } from 'node:test';
import { COMMANDS } from './commands.ts';
import { commandHelp, overview } from './help.ts';
import { createStyle, withoutColours } from './terminal/style.ts';

const plain = createStyle(false);

test('colours do not break a list of values that fits', () => {
  const runs = COMMANDS.find(({ name }) => name === 'runs');
  assert.ok(runs);
  const coloured = commandHelp(runs, 40, createStyle(true)).map((line) => withoutColours(line).trim());
  assert.deepEqual(
    coloured,
    commandHelp(runs, 40, plain).map((line) => line.trim()),
  );
});

for (const WIDTH of [80, 40])
  test(`help fits ${WIDTH} columns, except usages and examples`, () => {
    const lines = COMMANDS.flatMap((command) => {
      const [usage, examples = []] = [`Usage  svc ${command.name} `, command.examples];
      return commandHelp(command, WIDTH, plain).filter(
        (line) => !line.startsWith(usage) && !examples.includes(line.trim()),
      );
    });
    for (const line of [...overview('0.1.0', WIDTH, plain), ...lines]) assert.ok(line.length <= WIDTH, line);
  });
