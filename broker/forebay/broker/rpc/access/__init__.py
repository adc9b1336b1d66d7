"""Access control of calls: authentication, authorization, rate limits and the audit log."""
