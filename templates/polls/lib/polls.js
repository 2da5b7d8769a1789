/** Reads polls as the tools show them. */
import { manages } from './people.js';

const POLL = `
  SELECT id, question, several, named, closes_at AS closesAt, closed_at AS closedAt, maker, maker_name AS madeBy,
         created_at AS createdAt,
         (SELECT count(DISTINCT person) FROM votes WHERE poll = polls.id) AS voters,
         (SELECT json_group_array(json_object('id', id, 'text', text, 'votes', votes, 'names', json(names), 'mine', mine))
            FROM (SELECT options.id, text, count(person) AS votes,
                         json_group_array(name) FILTER (WHERE name IS NOT NULL) AS names,
                         coalesce(sum(person = @person), 0) AS mine
                    FROM options LEFT JOIN votes ON votes.option = options.id
                   WHERE options.poll = polls.id
                   GROUP BY options.id ORDER BY options.id)) AS options
    FROM polls`;

export const isOpen = ({ closesAt, closedAt }, now) => closedAt === null && (closesAt === null || closesAt > now);

/** The polls for which `condition` is true, newest first. Ids of people stay here. */
export async function readPolls(db, ctx, condition, params) {
  const rows = await db.all(`${POLL} WHERE ${condition} ORDER BY id DESC`, { ...params, person: ctx.user?.id ?? null });
  const now = Date.now();
  return rows.map(({ maker, several, named, options, ...poll }) => ({
    ...poll,
    several: several === 1,
    named: named === 1,
    open: isOpen(poll, now),
    manages: manages(ctx, maker),
    options: JSON.parse(options).map(({ mine, ...option }) => ({ ...option, mine: mine === 1 })),
  }));
}

/** The answer of an action that changed a poll. */
export async function answer(tx, ctx, id, status = 200) {
  const [poll] = await readPolls(tx, ctx, 'id = @id', { id });
  return { status, body: poll };
}
