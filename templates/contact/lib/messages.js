/** What the handlers of messages share. */

export const MESSAGE = `id, name, email, message, source, received_at AS receivedAt, read_at AS readAt, archived_at AS archivedAt`;

export const noMessage = (id) => ({
  status: 404,
  body: { code: 'UNKNOWN_MESSAGE', message: `There is no message ${id}; it may have been removed.` },
});
