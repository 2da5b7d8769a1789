/** Serves the pictures of people over HTTP (specification, "People"). */
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { removePicture, setPicture, showPicture } from '../../../protocol/routes/people/people-rows.ts';
import { answerJson, NO_STORE } from '../../http/answers.ts';
import type { Route } from '../../http/router.ts';
import type { Services } from '../../services.ts';
import { readBytes } from '../requests.ts';
import { serve, serveRaw } from '../serve-row.ts';
import { personNamed } from './people-routes.ts';
import { personRow } from './person-row.ts';
import { accessOf } from './signing-in.ts';

/** Another picture has another address. */
const KEPT = {
  'cache-control': 'private, max-age=31536000, immutable',
  'content-security-policy': "default-src 'none'",
  'x-content-type-options': 'nosniff',
};

export function pictureRoutes(services: Services): Route[] {
  const { accounts } = services;
  return [
    ...serveRaw(setPicture, async (exchange, { pid = '' }, caller) => {
      accessOf(services);
      const bytes = await readBytes(exchange, LIMITS.pictureBytes);
      // It may have taken minutes to arrive.
      if (caller.ended) throw new SvcError('FORBIDDEN', caller.refusal(null));
      const { id } = accounts.people.get(personNamed(pid, caller));
      answerJson(exchange, 200, personRow(accounts, await accounts.pictures.set(id, bytes)), NO_STORE);
    }),
    ...serve(removePicture, async ({ params: { pid }, caller }) => {
      accessOf(services);
      const { id } = accounts.people.get(personNamed(pid, caller));
      return personRow(accounts, await accounts.pictures.remove(id));
    }),
    ...serveRaw(showPicture, async (exchange, { pid = '', picture = '' }, _caller, place) => {
      // A picture in a page of an app comes with the cookie alone, and the address says nothing of the app.
      const caller = accessOf(services).caller(exchange, place);
      if (caller instanceof SvcError) throw caller;
      const found = await accounts.pictures.read(pid, picture);
      if (found === null)
        throw new SvcError('NOT_FOUND', 'There is no such picture; its person may have another one now.');
      exchange.send(200, { 'content-type': found.type, ...KEPT }, Buffer.from(found.bytes));
    }),
  ];
}
