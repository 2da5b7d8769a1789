/** The name that a mistyped one probably meant. */
import { editDistance } from '../../protocol/text/edit-distance.ts';

/** The closest of `names` to a mistyped one, or undefined when none is near enough to be worth suggesting. */
export function nearest(typed: string, names: Iterable<string>): string | undefined {
  let best: string | undefined;
  let bestDistance = Math.max(1, Math.floor(typed.length / 3)) + 1;
  for (const name of names) {
    const shortened = typed.length >= 3 && name.startsWith(typed);
    const distance = shortened ? 1 : editDistance(typed.toLowerCase(), name.toLowerCase());
    if (distance < bestDistance) {
      best = name;
      bestDistance = distance;
    }
  }
  return best;
}

/** The advice for a mistyped name: the one that was meant, or else `otherwise`. */
export function didYouMean(typed: string, names: Iterable<string>, otherwise: string): string {
  const meant = nearest(typed, names);
  return meant === undefined ? otherwise : `Did you mean "${meant}"?`;
}
