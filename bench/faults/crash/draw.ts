/** Draws the operations of a short crash campaign: others with each seed, and always some of the kinds that change most. */
import type { Random } from '../../../testing/random.ts';
import type { Operation } from './scenes.ts';

/** One of each is always drawn. */
const KINDS = [/upload/, /activation|rollback|publi/, /migration/];
const OTHERS = 2;

export function drawOperations(from: Operation[], random: Random): Operation[] {
  const shuffled = random.shuffled(from);
  const drawn = new Set<Operation | undefined>();
  for (const kind of KINDS) drawn.add(shuffled.find((one) => kind.test(one.name) && !drawn.has(one)));
  for (const one of shuffled.filter((other) => !drawn.has(other)).slice(0, OTHERS)) drawn.add(one);
  return from.filter((operation) => drawn.has(operation));
}
