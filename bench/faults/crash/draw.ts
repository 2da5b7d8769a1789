/** Draws the operations of a short crash campaign: others with each seed, and always some of the kinds that change most. */
import type { Operation } from './scenes.ts';

/** One of each is always drawn. */
const KINDS = [/upload/, /activation|rollback|publi/, /migration/];
const OTHERS = 2;

export function drawOperations(from: Operation[], chance: () => number): Operation[] {
  const drawn = new Set<Operation>();
  for (const kind of KINDS)
    for (const one of pickSome(
      from.filter((operation) => kind.test(operation.name) && !drawn.has(operation)),
      1,
      chance,
    ))
      drawn.add(one);
  const others = from.filter((operation) => !drawn.has(operation));
  for (const one of pickSome(others, OTHERS, chance)) drawn.add(one);
  return from.filter((operation) => drawn.has(operation));
}

/** `count` of them, in their order. */
export function pickSome<T>(from: T[], count: number, chance: () => number): T[] {
  if (count >= from.length) return from;
  return from
    .map((item, at) => ({ item, at, order: chance() }))
    .sort((a, b) => a.order - b.order)
    .slice(0, count)
    .sort((a, b) => a.at - b.at)
    .map(({ item }) => item);
}
