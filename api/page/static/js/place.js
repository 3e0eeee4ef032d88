// Where a source is, in words.
export function placeOf(source) {
  if (source.kind === "local") return source.path;
  if (source.kind === "s3") return `s3://${source.bucket}/${source.prefix}`;
  return `node ${source.node_id}${source.json_pointer ?? ""}`;
}
