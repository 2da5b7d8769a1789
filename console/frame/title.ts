/** The title of the browser's tab: what its history and bookmarks call the view. */
import type { AppRecord } from '../../protocol/answers.ts';
import { type Address, hrefOf } from '../address.ts';
import { placesOf } from './entries.ts';

export function titleOf({ parts }: Address, apps: readonly AppRecord[], isShared: boolean): string {
  const [place, first, second] = parts;
  const places = placesOf(place === 'apps' ? apps.filter(({ id }) => id === first) : [], isShared);
  const name =
    places.find(({ key }) => key === hrefOf(parts))?.text ??
    (place === 'automations' && second !== undefined ? `${first}/${second}` : place === 'runs' ? 'Run' : undefined);
  return name === undefined ? 'svc' : `${name} – svc`;
}
