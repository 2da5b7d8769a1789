/** Prints the routes of the gateway for programs, with `svc help --json`. Loaded only then. */
import { RESOURCES } from '../protocol/routes/resources.ts';
import { pathsOf } from '../protocol/routes/row.ts';
import { parametersOf, sent } from '../supervisor/openapi/gateway-document.ts';

/** One for each route; `parameters` and `body` are those of the OpenAPI document. */
export function routeDocuments(): Record<string, unknown>[] {
  return RESOURCES.flatMap(({ rows }) =>
    rows.map((row) => {
      const { method, path, needs, title, body, errors = {} } = row;
      const [, draftPath] = pathsOf(row);
      return {
        method,
        path,
        ...(draftPath !== undefined && { draftPath }),
        right: needs,
        title,
        parameters: parametersOf(row, path),
        ...(body !== undefined && { body: sent(body) }),
        errors: Object.keys(errors),
      };
    }),
  );
}
