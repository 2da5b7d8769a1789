/** Keeps, in a data directory, its last run as a node of a cluster. */
import { readJson, writeFileAtomic } from '../files/atomic-file.ts';
import type { Layout } from '../layout.ts';

/** `isBringing`: the cluster had not begun then, and may not have taken what the directory has. */
export type NodeRecord = { instance: string; isBringing: boolean };

/** Null where the directory was never a node's. */
export async function readNodeRecord({ node }: Layout): Promise<NodeRecord | null> {
  const record = (await readJson(node, null)) as { instance?: unknown; isBringing?: unknown } | null | undefined;
  if (typeof record?.instance !== 'string') return null;
  return { instance: record.instance, isBringing: record.isBringing === true };
}

export async function writeNodeRecord({ node }: Layout, { instance, isBringing }: NodeRecord): Promise<void> {
  await writeFileAtomic(node, `${JSON.stringify(isBringing ? { instance, isBringing } : { instance })}\n`);
}
