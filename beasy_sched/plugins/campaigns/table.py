"""Former name of `beasy_sched.campaigns.campaign_table`."""

raise ImportError(
    "beasy_sched.campaigns.table is now beasy_sched.campaigns.campaign_table: import read_campaign from there"
)
