//! What may stand before `(` in a plain read: built-in functions without side effects, keywords and types.
//!
//! Left out on purpose, so that they go to the source: whatever changes something (locks, sequences,
//! `LAST_INSERT_ID`), waits for replication, reads a file of the node, or answers for one connection
//! (`CONNECTION_ID`, `ROW_COUNT`, `FOUND_ROWS`, `SCOPE_IDENTITY`). Everything not listed counts as a stored
//! function.

/// In both dialects.
#[rustfmt::skip]
pub(super) const BOTH: &[&str] = &[
    // Keywords.
    "all", "and", "any", "as", "between", "by", "case", "cross", "distinct", "else", "end",
    "escape", "except", "exists", "filter", "for", "from", "group", "having", "in", "inner",
    "intersect", "is", "join", "like", "limit", "not", "offset", "on", "or", "order", "outer",
    "over", "partition", "rollup", "select", "some", "then", "union", "using", "values", "when",
    "where", "window", "with", "of",
    // Types.
    "binary", "char", "dec", "decimal", "float", "numeric", "time", "varbinary", "varchar",
    // Functions.
    "abs", "acos", "ascii", "asin", "atan", "avg", "cast", "ceiling", "coalesce", "concat",
    "concat_ws", "convert", "cos", "cot", "count", "cume_dist", "current_timestamp",
    "current_user", "day", "degrees", "dense_rank", "exp", "first_value", "floor", "format",
    "grouping", "lag", "last_value", "lead", "left", "log", "log10", "lower", "ltrim", "max",
    "min", "month", "ntile", "nullif", "percent_rank", "pi", "power", "radians", "rand", "rank",
    "replace", "reverse", "right", "round", "row_number", "rtrim", "sign", "sin", "soundex",
    "space", "sqrt", "substring", "sum", "tan", "trim", "upper", "user", "year", "session_user",
    "system_user", "json_array", "json_object", "json_value", "translate", "json_arrayagg",
    "json_objectagg",
];

/// In MySQL and MariaDB.
#[rustfmt::skip]
pub(super) const MYSQL: &[&str] = &[
    // Keywords.
    "against", "analyze", "collate", "columns", "desc", "describe", "div", "explain", "force", "ignore", "index", "key", "lateral", "match",
    "member", "nested", "recursive", "regexp", "rlike", "row", "separator", "straight_join",
    "xor", "keys", "constraint",
    // Types.
    "character", "datetime", "double", "nchar", "real", "signed", "unsigned", "varcharacter",
    "timestamp",
    // Text.
    "bin", "bit_length", "char_length", "character_length", "charset", "chr", "coercibility",
    "collation", "elt", "export_set", "field", "find_in_set", "from_base64", "hex", "insert",
    "instr", "lcase", "length", "lengthb", "locate", "lpad", "make_set", "mid",
    "natural_sort_key", "oct", "octet_length", "ord", "position", "quote", "regexp_instr",
    "regexp_like", "regexp_replace", "regexp_substr", "repeat", "rpad", "sformat", "strcmp",
    "substr", "substring_index", "to_base64", "to_char", "ucase", "unhex", "weight_string",
    // Numbers.
    "atan2", "bit_and", "bit_count", "bit_or", "bit_xor", "ceil", "conv", "crc32", "crc32c", "ln",
    "log2", "mod", "pow", "truncate",
    // Aggregates.
    "any_value", "group_concat", "median", "nth_value", "percentile_cont", "percentile_disc",
    "std", "stddev", "stddev_pop", "stddev_samp", "var_pop", "var_samp", "variance",
    // Control.
    "decode_oracle", "greatest", "if", "ifnull", "interval", "isnull", "least", "nvl", "nvl2",
    "default",
    // Time.
    "add_months", "adddate", "addtime", "convert_tz", "curdate", "current_date", "current_time",
    "curtime", "date", "date_add", "date_format", "date_sub", "datediff", "dayname", "dayofmonth",
    "dayofweek", "dayofyear", "extract", "from_days", "from_unixtime", "get_format", "hour",
    "last_day", "localtime", "localtimestamp", "makedate", "maketime", "microsecond", "minute",
    "monthname", "now", "period_add", "period_diff", "quarter", "sec_to_time", "second",
    "str_to_date", "subdate", "subtime", "sysdate", "time_format", "time_to_sec", "timediff",
    "timestampadd", "timestampdiff", "to_days", "to_seconds", "unix_timestamp", "utc_date",
    "utc_time", "utc_timestamp", "week", "weekday", "weekofyear", "yearweek",
    // Encryption and compression.
    "aes_decrypt", "aes_encrypt", "compress", "des_decrypt", "des_encrypt", "encrypt", "kdf",
    "md5", "password", "random_bytes", "sha", "sha1", "sha2", "statement_digest",
    "statement_digest_text", "uncompress", "uncompressed_length", "validate_password_strength",
    "encode", "decode", "old_password",
    // Information that every node of a cluster gives alike.
    "benchmark", "current_role", "database", "schema", "session_role", "version", "sleep",
    // Identifiers and addresses.
    "bin_to_uuid", "inet6_aton", "inet6_ntoa", "inet_aton", "inet_ntoa", "is_ipv4",
    "is_ipv4_compat", "is_ipv4_mapped", "is_ipv6", "is_uuid", "name_const", "sys_guid", "uuid",
    "uuid_short", "uuid_to_bin", "uuid_v4", "uuid_v7",
    // JSON and XML.
    "extractvalue", "json_append", "json_array_append", "json_array_insert",
    "json_array_intersect", "json_compact", "json_contains", "json_contains_path", "json_depth",
    "json_detailed", "json_equals", "json_exists", "json_extract", "json_insert",
    "json_key_value", "json_keys", "json_length", "json_loose", "json_merge", "json_merge_patch",
    "json_merge_preserve", "json_normalize", "json_object_filter_keys", "json_object_to_array",
    "json_overlaps", "json_pretty", "json_query", "json_quote", "json_remove", "json_replace",
    "json_schema_valid", "json_schema_validation_report", "json_search", "json_set",
    "json_storage_free", "json_storage_size", "json_table", "json_type", "json_unquote",
    "json_valid", "updatexml",
    // Dynamic columns.
    "column_add", "column_check", "column_create", "column_delete", "column_exists", "column_get",
    "column_json", "column_list",
    // Geometry.
    "contains", "crosses", "disjoint", "equals", "geomcollection", "geometrycollection",
    "intersects", "linestring", "mbrcontains", "mbrcoveredby", "mbrcovers", "mbrdisjoint",
    "mbrequal", "mbrequals", "mbrintersects", "mbroverlaps", "mbrtouches", "mbrwithin",
    "multilinestring", "multipoint", "multipolygon", "overlaps", "point", "polygon", "st_area",
    "st_asbinary", "st_asgeojson", "st_astext", "st_aswkb", "st_aswkt", "st_boundary",
    "st_buffer", "st_buffer_strategy", "st_centroid", "st_collect", "st_contains",
    "st_convexhull", "st_crosses", "st_difference", "st_dimension", "st_disjoint", "st_distance",
    "st_distance_sphere", "st_endpoint", "st_envelope", "st_equals", "st_exteriorring",
    "st_frechetdistance", "st_geohash", "st_geomcollfromtext", "st_geometryfromtext",
    "st_geometryn", "st_geometrytype", "st_geomfromgeojson", "st_geomfromtext", "st_geomfromwkb",
    "st_hausdorffdistance", "st_interiorringn", "st_intersection", "st_intersects", "st_isclosed",
    "st_isempty", "st_isring", "st_issimple", "st_isvalid", "st_latfromgeohash", "st_latitude",
    "st_length", "st_linefromtext", "st_linefromwkb", "st_lineinterpolatepoint",
    "st_longfromgeohash", "st_longitude", "st_makeenvelope", "st_numgeometries",
    "st_numinteriorring", "st_numinteriorrings", "st_numpoints", "st_overlaps",
    "st_pointatdistance", "st_pointfromgeohash", "st_pointfromtext", "st_pointfromwkb",
    "st_pointn", "st_polyfromtext", "st_polyfromwkb", "st_relate", "st_simplify", "st_srid",
    "st_startpoint", "st_swapxy", "st_symdifference", "st_touches", "st_transform", "st_union",
    "st_validate", "st_within", "st_x", "st_y", "touches", "within",
    // Vectors.
    "distance", "string_to_vector", "to_vector", "vec_distance", "vec_distance_cosine",
    "vec_distance_euclidean", "vec_fromtext", "vec_totext", "vector_dim", "vector_to_string",
    "from_vector",
];

/// In T-SQL.
#[rustfmt::skip]
pub(super) const TSQL: &[&str] = &[
    // Keywords.
    "apply", "cube", "full", "index", "option", "pivot", "sets", "tablesample", "top", "unpivot", "path",
    "raw", "root", "within", "hint",
    // Types.
    "datetime2", "datetimeoffset", "nchar", "nvarchar", "sql_variant", "vector",
    // Text.
    "charindex", "difference", "len", "patindex", "quotename", "regexp_count", "regexp_instr",
    "regexp_like", "regexp_replace", "regexp_substr", "replicate", "str", "string_agg",
    "string_escape", "string_split", "stuff", "unicode", "datalength", "edit_distance",
    "edit_distance_similarity",
    // Numbers.
    "atn2", "bit_count", "generate_series", "get_bit", "left_shift", "right_shift", "set_bit",
    "square",
    // Aggregates.
    "approx_count_distinct", "approx_percentile_cont", "approx_percentile_disc", "checksum_agg",
    "count_big", "grouping_id", "percentile_cont", "percentile_disc", "stdev", "stdevp", "var",
    "varp", "product",
    // Control.
    "choose", "greatest", "iif", "isnull", "least",
    // Time.
    "date_bucket", "dateadd", "datediff", "datediff_big", "datefromparts", "datename", "datepart",
    "datetime2fromparts", "datetimefromparts", "datetimeoffsetfromparts", "datetrunc", "eomonth",
    "getdate", "getutcdate", "isdate", "smalldatetimefromparts", "switchoffset", "sysdatetime",
    "sysdatetimeoffset", "sysutcdatetime", "timefromparts", "todatetimeoffset",
    "current_timezone", "current_timezone_id",
    // Conversion.
    "binary_checksum", "checksum", "compress", "decompress", "hashbytes", "isnumeric", "newid",
    "parse", "sql_variant_property", "try_cast", "try_convert", "try_parse", "base64_encode",
    "base64_decode",
    // JSON and XML.
    "isjson", "json_contains", "json_modify", "json_path_exists", "json_query", "openjson",
    // Catalogue and rights, alike on every node.
    "col_length", "col_name", "columnproperty", "databasepropertyex", "db_id", "db_name",
    "file_id", "file_name", "filegroup_id", "filegroup_name", "fulltextserviceproperty",
    "has_perms_by_name", "index_col", "indexkey_property", "indexproperty", "is_member",
    "is_rolemember", "is_srvrolemember", "object_definition", "object_id", "object_name",
    "object_schema_name", "objectproperty", "objectpropertyex", "original_db_name",
    "original_login", "parsename", "schema_id", "schema_name", "stats_date", "suser_id",
    "suser_name", "suser_sid", "suser_sname", "type_id", "type_name", "typeproperty", "user_id",
    "user_name", "permissions", "app_name",
    // Full text.
    "contains", "containstable", "freetext", "freetexttable",
];
