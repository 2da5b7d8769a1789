/** Ids and names of apps that are made from each other, and from what people type. Pure. */

/** An app id made from a name: `My Notes` → `my-notes`. Empty when nothing of the name can stay. */
export function idFromName(name: string): string {
  return name
    .normalize('NFKD')
    .toLowerCase()
    .replace(/[^a-z0-9_-]+/g, '-')
    .replace(/^[-_]+|-+$/g, '')
    .slice(0, 63);
}

/** `my-notes` → `My notes`. */
export function nameFromId(id: string): string {
  const words = id.replace(/[-_]+/g, ' ');
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** `todos`, else `todos-2`, `todos-3`, …: the first that is not taken. */
export function freeId(id: string, taken: (id: string) => boolean): string {
  for (let n = 1; ; n++) {
    const suffix = n === 1 ? '' : `-${n}`;
    const candidate = id.slice(0, 63 - suffix.length) + suffix;
    if (!taken(candidate)) return candidate;
  }
}

/** `Todos`, else `Todos 2`, `Todos 3`, … */
export function freeName(name: string, taken: (name: string) => boolean): string {
  for (let n = 1; ; n++) {
    const candidate = n === 1 ? name : `${name} ${n}`;
    if (!taken(candidate)) return candidate;
  }
}
