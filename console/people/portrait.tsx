/** The picture of a person, or the first letter of their name in a colour of its own. */
import type { RowIn } from '../../protocol/routes/api.ts';
import { hueOf } from '../words.ts';

export function Portrait({ id, name, picture }: Pick<RowIn<'GET /svc/_people'>, 'id' | 'name' | 'picture'>) {
  if (picture !== null) return <img class="tile portrait" src={picture} alt="" loading="lazy" decoding="async" />;
  return (
    <span class="tile portrait" style={{ '--hue': hueOf(id) }} aria-hidden="true">
      {[...name][0]?.toUpperCase() ?? '?'}
    </span>
  );
}
