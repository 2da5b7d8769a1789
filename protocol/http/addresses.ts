/** Builds the addresses of the gateway's routes: paths whose values are encoded, and their parameters. */

/** A path whose values are encoded: route`/svc/_apps/${id}/versions`. Of a value with slashes pass the parts. */
export function route(texts: TemplateStringsArray, ...values: (string | number | readonly string[])[]): string {
  return String.raw({ raw: texts }, ...values.map((value) => [value].flat().map(encodeURIComponent).join('/')));
}

/** Parameters of an address by their names. */
export type Query = Readonly<Record<string, string | number | undefined>>;

/** The path with the parameters that have a value. */
export function withQuery(path: string, parameters: Query): string {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) if (value !== undefined) given.set(name, String(value));
  return given.size === 0 ? path : `${path}?${given}`;
}

/**
 * The path of a row with its values: `:name` is one, `*` the rest of a path. With a `sid` that the path does not name, it is that of
 * the same route for the draft of the app in this workspace.
 */
export function filled(path: string, values: Readonly<Record<string, string | undefined>>): string {
  const { sid } = values;
  const whole = sid === undefined || path.includes('/:sid') ? path : path.replace('/svc', '/svc/_draft/:sid');
  return whole.replace(/(?<=\/):(\w+)|\*$/g, (found, name?: string) => {
    const value = values[name ?? found] ?? '';
    // A way up would leave the route: it is one name then, which the gateway refuses.
    const isWithin = !value.split('/').includes('..');
    return name === undefined && isWithin ? route`${value.split('/')}` : route`${value}`;
  });
}
