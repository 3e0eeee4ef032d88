-- name: newest_of_tool
SELECT :task_of_tool
FROM search_tool s JOIN search_index i ON i.id = s.index_id :newest_task_of_tool
WHERE s.id = %(tool_id)s

-- name: newest_of_tools
SELECT :task_of_tool
FROM search_tool s JOIN search_index i ON i.id = s.index_id :newest_task_of_tool
WHERE (%(project_id)s::text IS NULL OR s.project_id = %(project_id)s)
  AND (%(after_time)s::timestamptz IS NULL OR (s.created_at, s.id) > (%(after_time)s, %(after_id)s))
ORDER BY s.created_at, s.id LIMIT %(limit)s

-- name: history
SELECT :task_of_tool
FROM search_tool s JOIN search_index i ON i.id IN (s.index_id, s.next_index_id)
JOIN search_index_task t ON t.index_id = i.id
WHERE s.id = %(tool_id)s
  AND (%(before_time)s::timestamptz IS NULL OR (t.created_at, t.id) < (%(before_time)s, %(before_id)s))
ORDER BY t.created_at DESC, t.id DESC LIMIT %(limit)s
